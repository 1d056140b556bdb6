#!lua flags=allow-oom
-- claim_suspect: Leases the oldest suspect to a holder that runs nothing else.
-- KEYS[1] suspect  ZSET    id -> order
-- KEYS[2] active   ZSET    id -> lease deadline in ms
-- KEYS[3] hand     SET     ids that the holder has
-- KEYS[4] pending  ZSET    id -> order
-- KEYS[5] lanes    ZSET    lane -> turn
-- KEYS[6] held     ZSET    lane -> when it may be served again
-- KEYS[7] limits   HASH    of the queue and its lanes
-- KEYS[8] dead     ZSET    id -> time of death in ms
-- KEYS[9] meta     HASH    protocol, flow, paused
-- KEYS[10] events  STREAM  off the happy path
-- ARGV[1] base     prefix of the queue's keys
-- ARGV[2] holder   1 to 40 characters
-- ARGV[3] nonce    8 bytes, new for each claim
-- ARGV[4] again    1: the reply to this nonce was lost
-- Returns {id, row} or {}
local suspect, active, hand, pending, lanes, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local limits, dead, meta, events, base = KEYS[7], KEYS[8], KEYS[9], KEYS[10], ARGV[1]
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include lanes
--- @include running
--- @include flow
--- @include lease
--- @include again
--- @include event
--- @include lost

if ARGV[4] == '1' then
  local before = claimed_before(ARGV[3])
  if #before > 0 then return before end
end

local room, of_queue = paused and 0 or 1, nil
if flow then room, of_queue = queue_room(room) end
local id, row
local lost = {}
for _, candidate in ipairs(room > 0 and redis.call('ZRANGE', suspect, 0, 49) or {}) do
  local found, why = read_row(base .. 'job:' .. candidate)
  if not found or found.state ~= 'u' then
    -- A row of a newer release waits here for a worker that can read it.
    if why ~= 'newer' then lost[#lost + 1] = { candidate, why or found.state } end
  elseif not flow or lane_room(found.lane) > 0 then
    id, row = candidate, found
    break
  end
end
redis.call('EXISTS', hand)
redis.call('EXISTS', active)

for _, pair in ipairs(lost) do
  redis.call('ZREM', suspect, pair[1])
  lose(pair[1], pair[2])
end
if not row then return {} end
redis.call('ZREM', suspect, id)
if flow then started_in_lane(row.lane, { id }) end
if of_queue then take_tokens(of_queue, 1) end
return lease({ id }, { row }, ARGV[2], ARGV[3], 1)
