#!lua flags=allow-oom
-- release: Lets a job go that waited for a group of another queue.
-- KEYS[1] scheduled  ZSET  id -> due in ms
-- KEYS[2] meta       HASH  protocol
-- KEYS[3] wake       LIST  at most one token
-- KEYS[4] row        STRING
-- ARGV[1] id         JOB id
-- Returns 1 | 0 | -1: it may go, it does not wait, no such job
local scheduled, meta, wake = KEYS[1], KEYS[2], KEYS[3]
--- @include clock
--- @include meta
--- @include protocol
--- @include wake

if redis.call('EXISTS', KEYS[4]) == 0 then return -1 end
if redis.call('ZSCORE', scheduled, ARGV[1]) ~= 'inf' then return 0 end
redis.call('ZADD', scheduled, now, ARGV[1])
wake_one()
return 1
