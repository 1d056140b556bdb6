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
--- @include lost
--- @include let_go
--- @include expire
--- @include put_aside

if ARGV[6] == '1' then
  local before = claimed_before(nonce)
  if #before > 0 then return before end
end

local of_queue
if paused then count = 0 end
if flow then count, of_queue = queue_room(count) end
local ring = count > 0 and redis.call('ZRANGE', lanes, 0, count - 1, 'WITHSCORES') or {}
if #ring == 0 then return {} end
local alone, last = redis.call('ZCARD', lanes) == 1, last_turn(lanes)

-- A turn is worth as many jobs as the lane weighs, in one claim or in several.
local front, turns = {}, {}
for n = 1, #ring / 2 do
  local lane, turn = ring[2 * n - 1], tonumber(ring[2 * n])
  local one = { lane = lane, key = lane_key(lane), weight = 1, room = count, taken = {}, leased = {} }
  if flow then
    one.weight = weight_of(lane)
    one.room, one.wait = lane_room(lane)
  end
  one.place = math.floor(turn)
  one.used = math.min(one.weight - 1, math.floor((turn - one.place) * one.weight + 0.5))
  front[n], turns[n] = one, one
end

-- Read everything first: the server does not roll back what a failed script has written.
local MAX_BYTES = 1048576
local ids, rows, late, unreadable = {}, {}, {}, {}
local left, bytes = count, 0

local function take(one, id)
  local row, why = read_row(base .. 'job:' .. id)
  left, one.used = left - 1, one.used + 1
  table.insert(one.taken, id)
  if not row or row.state ~= 'p' then
    unreadable[#unreadable + 1] = { id, why or row.state }
  elseif has(row, EXTRAS) and has_expired(row) then
    late[#late + 1] = { id, row }
  else
    ids[#ids + 1], rows[#rows + 1] = id, row
    table.insert(one.leased, id)
    bytes = bytes + #row.raw
  end
end

local n = 1
while turns[n] and left > 0 and bytes < MAX_BYTES do
  local one = turns[n]
  local share = math.min(left, alone and left or one.weight - one.used, one.room - #one.taken)
  local first = #one.taken
  for _, id in ipairs(share > 0 and redis.call('ZRANGE', one.key, first, first + share - 1) or {}) do
    if bytes >= MAX_BYTES then break end
    take(one, id)
  end
  if one.used >= one.weight then
    last = last + 1
    one.place, one.used, turns[#turns + 1] = last, 0, one
  end
  n = n + 1
end
redis.call('EXISTS', hand, active, dead)

local more = false
for _, one in ipairs(front) do
  if #one.taken > 0 then redis.call('ZREM', one.key, unpack(one.taken)) end
  if flow and #one.leased > 0 then started_in_lane(one.lane, one.leased) end
  if not drop_empty(one.lane) then
    if one.wait then
      hold(one.lane, one.wait)
    else
      more = true
      if not alone and #one.taken > 0 then
        redis.call('ZADD', lanes, one.place + one.used / one.weight, one.lane)
      end
    end
  end
end
if of_queue and #ids > 0 then take_tokens(of_queue, #ids) end

put_aside(unreadable, late)

if more or #front == count then wake_one() end
if #ids == 0 then return {} end
return lease(ids, rows, holder, nonce, starting)
