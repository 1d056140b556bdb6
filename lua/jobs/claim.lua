#!lua flags=allow-oom
-- claim: Leases the next jobs to a holder, a share from each ready lane in turn.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] limits     HASH    of the queue and its lanes
-- KEYS[5] active     ZSET    id -> lease deadline in ms
-- KEYS[6] hand       SET     ids that the holder has
-- KEYS[7] scheduled  ZSET    id -> due in ms
-- KEYS[8] dead       ZSET    id -> time of death in ms
-- KEYS[9] meta       HASH    protocol, flow, paused
-- KEYS[10] wake      LIST    at most one token
-- KEYS[11] events    STREAM  off the happy path
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] holder     1 to 40 characters
-- ARGV[3] nonce      8 bytes, new for each claim
-- ARGV[4] count      jobs at most
-- ARGV[5] starting   how many of them start now
-- ARGV[6] again      1: the reply to this nonce was lost
-- Returns {id, row, ...}
local pending, lanes, held, limits, active, hand = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local scheduled, dead, meta, wake, events = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local base, holder, nonce, count, starting = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include extras
--- @include lanes
--- @include running
--- @include flow
--- @include lease
--- @include again
--- @include wake
--- @include event
--- @include let_go
--- @include expire

if ARGV[6] == '1' then
  local before = claimed_before(nonce)
  if #before > 0 then return before end
end

local of_queue
if paused then count = 0 end
if flow then count, of_queue = queue_room(count) end
local ring = count > 0 and redis.call('ZRANGE', lanes, 0, count - 1) or {}
if #ring == 0 then return {} end
local taking_turns = redis.call('ZCARD', lanes) > 1

-- Read everything first: the server does not roll back what a failed script has written.
local MAX_BYTES = 1048576
local ids, rows, taken, leased, waits, late, unreadable = {}, {}, {}, {}, {}, {}, {}
local left, bytes, shares = count, 0, #ring
if flow then
  shares = 0
  for _, lane in ipairs(ring) do
    shares = shares + weight_of(lane)
  end
end
for turn, lane in ipairs(ring) do
  local weight = flow and weight_of(lane) or 1
  local share = math.ceil(left * weight / shares)
  shares = shares - weight
  if flow then
    local room, wait = lane_room(lane)
    share, waits[turn] = math.min(share, room), wait
  end
  taken[turn], leased[turn] = {}, {}
  for _, id in ipairs(share > 0 and redis.call('ZRANGE', lane_key(lane), 0, share - 1) or {}) do
    if bytes >= MAX_BYTES then break end
    table.insert(taken[turn], id)
    local row, why = read_row(base .. 'job:' .. id)
    if not row or row.state ~= 'p' then
      unreadable[#unreadable + 1] = { id, why or row.state }
    elseif has(row, EXTRAS) and has_expired(row) then
      late[#late + 1] = { id, row }
    else
      ids[#ids + 1], rows[#rows + 1] = id, row
      table.insert(leased[turn], id)
      bytes = bytes + #row.raw
    end
  end
  left = left - #taken[turn]
end
redis.call('EXISTS', hand, active, dead)

local last, more = last_turn(), false
for turn, lane in ipairs(ring) do
  if #taken[turn] > 0 then redis.call('ZREM', lane_key(lane), unpack(taken[turn])) end
  if flow and #leased[turn] > 0 then started_in_lane(lane, leased[turn]) end
  if not drop_empty(lane) then
    if waits[turn] then
      hold(lane, waits[turn])
    else
      more = true
      if taking_turns and #taken[turn] > 0 then redis.call('ZADD', lanes, last + turn, lane) end
    end
  end
end
if of_queue and #ids > 0 then take_tokens(of_queue, #ids) end

for _, pair in ipairs(unreadable) do
  local id, why = pair[1], pair[2]
  -- A row of a newer release waits for a worker that can read it; anything else has no job behind it.
  if why == 'newer' then redis.call('ZADD', scheduled, now + 30000, id) end
  event(why == 'newer' and 'released' or 'lost', id, 0, why)
end
for _, pair in ipairs(late) do
  expire(pair[1], pair[2])
end

if more or #ring == count then wake_one() end
if #ids == 0 then return {} end
return lease(ids, rows, holder, nonce, starting)
