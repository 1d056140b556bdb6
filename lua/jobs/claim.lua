#!lua flags=allow-oom
-- claim: Leases the next jobs to a holder, a share from each ready lane in turn.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] active     ZSET    id -> lease deadline in ms
-- KEYS[4] hand       SET     ids that the holder has
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] meta       HASH    protocol
-- KEYS[7] wake       LIST    at most one token
-- KEYS[8] events     STREAM  off the happy path
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] holder     1 to 40 characters
-- ARGV[3] nonce      8 bytes, new for each claim
-- ARGV[4] count      jobs at most
-- ARGV[5] starting   how many of them start now
-- ARGV[6] again      1: the reply to this nonce was lost
-- Returns {id, row, ...}
local pending, lanes, active, hand, scheduled, meta, wake, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local base, holder, nonce, count, starting = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
--- @include clock
--- @include protocol
--- @include layout
--- @include row
--- @include lanes
--- @include lease
--- @include again
--- @include wake
--- @include event

if ARGV[6] == '1' then
  local before = claimed_before(nonce)
  if #before > 0 then return before end
end

local ring = count > 0 and redis.call('ZRANGE', lanes, 0, count - 1) or {}
if #ring == 0 then return {} end
local taking_turns = redis.call('ZCARD', lanes) > 1

-- Read everything first: the server does not roll back what a failed script has written.
local MAX_BYTES = 1048576
local ids, rows, taken, unreadable, left, bytes = {}, {}, {}, {}, count, 0
for turn, lane in ipairs(ring) do
  local share = math.ceil(left / (#ring - turn + 1))
  taken[turn] = {}
  for _, id in ipairs(redis.call('ZRANGE', lane_key(lane), 0, share - 1)) do
    if bytes >= MAX_BYTES then break end
    table.insert(taken[turn], id)
    local row, why = read_row(base .. 'job:' .. id)
    if row and row.state == 'p' then
      ids[#ids + 1], rows[#rows + 1] = id, row
      bytes = bytes + #row.raw
    else
      unreadable[#unreadable + 1] = { id, why or row.state }
    end
  end
  left = left - #taken[turn]
end
redis.call('EXISTS', hand)
redis.call('EXISTS', active)

local last, more = last_turn(), false
for turn, lane in ipairs(ring) do
  local key = lane_key(lane)
  if #taken[turn] > 0 then redis.call('ZREM', key, unpack(taken[turn])) end
  if redis.call('EXISTS', key) == 0 then
    redis.call('ZREM', lanes, lane)
  else
    more = true
    if taking_turns and #taken[turn] > 0 then redis.call('ZADD', lanes, last + turn, lane) end
  end
end

for _, pair in ipairs(unreadable) do
  local id, why = pair[1], pair[2]
  -- A row of a newer release waits for a worker that can read it; anything else has no job behind it.
  if why == 'newer' then redis.call('ZADD', scheduled, now + 30000, id) end
  event(why == 'newer' and 'released' or 'lost', id, 0, why)
end

if more or #ring == count then wake_one() end
if #ids == 0 then return {} end
return lease(ids, rows, holder, nonce, starting)
