#!lua flags=allow-oom
-- progress: Notes how far a job is, or a line of its log, for whoever looks. Both are gone after a day without news.
-- KEYS[1] row       STRING
-- KEYS[2] progress  STRING  done NUL of
-- KEYS[3] log       LIST    the last lines
-- ARGV[1] fence     of the holder
-- ARGV[2] nonce     of the holder
-- ARGV[3] progress  '' = none
-- ARGV[4] line      '' = none
-- ARGV[5] lines     kept at most
-- Returns 1 | 0: 0 = the token is stale
--- @include layout
--- @include row
--- @include token

local DAY = 86400
if not holds(read_row(KEYS[1]), ARGV[1], ARGV[2]) then return 0 end
if ARGV[3] ~= '' then redis.call('SET', KEYS[2], ARGV[3], 'EX', DAY) end
if ARGV[4] ~= '' then
  redis.call('RPUSH', KEYS[3], ARGV[4])
  redis.call('LTRIM', KEYS[3], -tonumber(ARGV[5]), -1)
  redis.call('EXPIRE', KEYS[3], DAY)
end
return 1
