#!lua flags=allow-oom
-- claim_alone: Leases the oldest suspect, or else the next isolated job, to a holder that runs nothing else.
-- KEYS[1] suspect    ZSET    id -> order
-- KEYS[2] isolated   ZSET    lane -> turn
-- KEYS[3] active     ZSET    id -> lease deadline in ms
-- KEYS[4] hand       SET     ids that the holder has
-- KEYS[5] pending    ZSET    id -> order
-- KEYS[6] lanes      ZSET    lane -> turn
-- KEYS[7] held       ZSET    lane -> when it may be served again
-- KEYS[8] limits     HASH    of the queue and its lanes
-- KEYS[9] scheduled  ZSET    id -> due in ms
-- KEYS[10] dead      ZSET    id -> time of death in ms
-- KEYS[11] meta      HASH    protocol, flow, paused
-- KEYS[12] wake      LIST    at most one token
-- KEYS[13] events    STREAM  off the happy path
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] holder     1 to 40 characters
-- ARGV[3] nonce      8 bytes, new for each claim
-- ARGV[4] again      1: the reply to this nonce was lost
-- Returns {id, row} or {}
local suspect, isolated, active, hand, pending, lanes, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local limits, scheduled, dead, meta, wake, events = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local base, nonce = ARGV[1], ARGV[3]
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include extras
--- @include lanes
--- @include line
--- @include running
--- @include flow
--- @include alone
--- @include lease
--- @include again
--- @include wake
--- @include event
--- @include lost
--- @include let_go
--- @include expire
--- @include put_aside

if ARGV[4] == '1' then
  local before = claimed_before(nonce)
  if #before > 0 then return before end
end

local MOST = 50
local room, of_queue = room_for_one()
if room == 0 then return {} end

local lost, taken, late, unreadable = {}, {}, {}, {}
local id, row = next_suspect(lost)
local lane = not row and next_isolated()
for _, candidate in ipairs(lane and redis.call('ZRANGE', isolated_key(lane), 0, MOST - 1) or {}) do
  local found, why = read_row(base .. 'job:' .. candidate)
  taken[#taken + 1] = candidate
  if not found or found.state ~= 'p' then
    unreadable[#unreadable + 1] = { candidate, why or found.state }
  elseif has_expired(found) then
    late[#late + 1] = { candidate, found }
  else
    id, row = candidate, found
    break
  end
end
redis.call('EXISTS', hand, active, dead, scheduled)

for _, pair in ipairs(lost) do
  redis.call('ZREM', suspect, pair[1])
  lose(pair[1], pair[2])
end
if lane then
  if #taken > 0 then redis.call('ZREM', isolated_key(lane), unpack(taken)) end
  redis.call('ZADD', isolated, last_turn(isolated) + 1, lane)
  if redis.call('EXISTS', isolated_key(lane)) == 0 then redis.call('ZREM', isolated, lane) end
end
put_aside(unreadable, late)
if not row then return {} end
if not lane then redis.call('ZREM', suspect, id) end
if redis.call('EXISTS', suspect, isolated) > 0 then wake_one() end
if flow then started_in_lane(row.lane, { id }) end
if of_queue then take_tokens(of_queue, 1) end
return lease({ id }, { row }, ARGV[2], nonce, 1)
