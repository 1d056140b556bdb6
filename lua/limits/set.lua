#!lua flags=allow-oom
-- set: Sets or drops limits and weights of the queue and its lanes.
-- KEYS[1] lanes   ZSET  lane -> turn
-- KEYS[2] held    ZSET  lane -> when it may be served again
-- KEYS[3] limits  HASH  of the queue and its lanes
-- KEYS[4] meta    HASH  protocol, flow
-- KEYS[5] wake    LIST  at most one token
-- ARGV[1] base    prefix of the queue's keys
-- ARGV[2] lane    whose limits may have been loosened
-- ARGV[3+] two a limit: field, value ('' drops it)
-- Returns 1
local lanes, held, limits, meta, wake, base, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], ARGV[2]
local pending = base .. 'pending'
--- @include meta
--- @include protocol
--- @include lanes
--- @include running
--- @include wake

for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', limits, ARGV[i])
  else
    redis.call('HSET', limits, ARGV[i], ARGV[i + 1])
  end
end
if redis.call('HEXISTS', limits, 'concurrency:' .. lane) == 0 then redis.call('DEL', running_key(lane)) end
-- Whoever claims next looks at the new limits and holds the lane again where it must.
if redis.call('ZSCORE', held, lane) and redis.call('HEXISTS', limits, 'paused:' .. lane) == 0 then
  redis.call('ZREM', held, lane)
  to_ring(lane)
end
if redis.call('EXISTS', limits) == 1 then
  redis.call('HSET', meta, 'flow', 1)
else
  redis.call('HDEL', meta, 'flow')
end
wake_one()
return 1
