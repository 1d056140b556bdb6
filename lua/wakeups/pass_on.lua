#!lua flags=allow-oom
-- pass_on: Gives a wake-up back that a quitting worker may have taken, if there is work for another.
-- KEYS[1] lanes  ZSET  lane -> turn
-- KEYS[2] wake   LIST  at most one token
-- Returns 1
local wake = KEYS[2]
--- @include wake

if redis.call('EXISTS', KEYS[1]) == 1 then wake_one() end
return 1
