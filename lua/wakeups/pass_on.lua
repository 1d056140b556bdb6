#!lua flags=allow-oom
-- pass_on: Gives a wake-up back that a quitting worker may have taken, if there is work for another.
-- KEYS[1] lanes     ZSET  lane -> turn
-- KEYS[2] suspect   ZSET  id -> order
-- KEYS[3] isolated  ZSET  lane -> turn
-- KEYS[4] wake      LIST  at most one token
-- Returns 1
local wake = KEYS[4]
--- @include wake

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 then wake_one() end
return 1
