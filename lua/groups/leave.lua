#!lua flags=allow-oom
-- leave: Counts a member of a group as over that the queue does not have any more.
-- KEYS[1] meta   HASH  protocol
-- KEYS[2] wake   LIST  at most one token
-- ARGV[1] base   prefix of the queue's keys
-- ARGV[2] group  JSON: id, size, after, queue
-- ARGV[3] id     JOB id of the member
-- Returns 1 | 0: 0 = others are not over
local meta, wake, base = KEYS[1], KEYS[2], ARGV[1]
--- @include clock
--- @include meta
--- @include protocol
--- @include group
--- @include wake

local last = leave_group(cjson.decode(ARGV[2]), ARGV[3])
if last then wake_one() end
return last and 1 or 0
