#!lua flags=allow-oom
-- resume: Lets the queue, or one lane, start jobs again.
-- KEYS[1] pending  ZSET    id -> order
-- KEYS[2] lanes    ZSET    lane -> turn
-- KEYS[3] held     ZSET    lane -> when it may be served again
-- KEYS[4] limits   HASH    of the queue and its lanes
-- KEYS[5] meta     HASH    protocol, flow, paused
-- KEYS[6] wake     LIST    at most one token
-- KEYS[7] events   STREAM  off the happy path
-- ARGV[1] base     prefix of the queue's keys
-- ARGV[2] whole    1: the queue, 0: one lane
-- ARGV[3] lane     its name
-- Returns 1 | 0: 0 = it was not paused
local pending, lanes, held, limits, meta, wake, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local base, lane = ARGV[1], ARGV[3]
--- @include meta
--- @include protocol
--- @include lanes
--- @include wake
--- @include event

if ARGV[2] == '1' then
  if redis.call('HDEL', meta, 'paused') == 0 then return 0 end
  event('resumed', '', 0)
else
  if redis.call('HDEL', limits, 'paused:' .. lane) == 0 then return 0 end
  if redis.call('ZREM', held, lane) == 1 and redis.call('EXISTS', lane_key(lane)) == 1 then to_ring(lane) end
  if redis.call('EXISTS', limits) == 0 then redis.call('HDEL', meta, 'flow') end
  event('lane resumed', lane, 0)
end
wake_one()
return 1
