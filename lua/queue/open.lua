#!lua flags=allow-oom
-- open: Announces that workers serve the queue, and with which default lease.
-- KEYS[1] meta      HASH  protocol, lease_ms
-- ARGV[1] lease     ms
-- Returns 1
local meta = KEYS[1]
--- @include meta
--- @include protocol

redis.call('HSET', meta, 'protocol', PROTOCOL, 'lease_ms', ARGV[1])
return 1
