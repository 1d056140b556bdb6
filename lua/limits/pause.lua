#!lua flags=allow-oom
-- pause: Lets nothing more of the queue, or of one lane, start; what runs goes on.
-- KEYS[1] lanes   ZSET    lane -> turn
-- KEYS[2] held    ZSET    lane -> when it may be served again
-- KEYS[3] limits  HASH    of the queue and its lanes
-- KEYS[4] meta    HASH    protocol, flow, paused
-- KEYS[5] events  STREAM  off the happy path
-- ARGV[1] whole   1: the queue, 0: one lane
-- ARGV[2] lane    its name
-- ARGV[3] why     JSON: by whom, when, why
-- Returns 1
local lanes, held, limits, meta, events, lane = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[2]
--- @include meta
--- @include protocol
--- @include event

if ARGV[1] == '1' then
  redis.call('HSET', meta, 'paused', ARGV[3])
  event('paused', '', 0, ARGV[3])
  return 1
end
redis.call('HSET', limits, 'paused:' .. lane, ARGV[3])
redis.call('HSET', meta, 'flow', 1)
if redis.call('ZREM', lanes, lane) == 1 or redis.call('ZSCORE', held, lane) then redis.call('ZADD', held, 'inf', lane) end
event('lane paused', lane, 0, ARGV[3])
return 1
