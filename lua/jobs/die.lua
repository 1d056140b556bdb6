#!lua flags=allow-oom
-- die: Gives jobs up; they wait in `dead` until the database has them.
-- KEYS[1] active  ZSET    id -> lease deadline in ms
-- KEYS[2] hand    SET     ids that the holder has
-- KEYS[3] dead    ZSET    id -> time of death in ms
-- KEYS[4] events  STREAM  off the happy path
-- KEYS[5+] row    STRING  one a job
-- ARGV[1+] five a job: id, fence, nonce, failures to count (0 or 1), error (reason NUL class NUL message NUL traceback)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand, dead, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
--- @include clock
--- @include layout
--- @include row
--- @include token
--- @include event

local verdicts, rows = {}, {}
for n = 1, #KEYS - 4 do
  local fence, nonce = ARGV[5 * n - 3], ARGV[5 * n - 2]
  local row, why = read_row(KEYS[n + 4])
  if holds(row, fence, nonce) then
    verdicts[n], rows[n] = 1, row
  elseif row and row.state == 'd' and same_token(row, fence, nonce) then
    verdicts[n] = 1
  else
    verdicts[n] = why == 'missing' and -1 or 0
  end
end
redis.call('EXISTS', dead)

for n, row in pairs(rows) do
  local id, failures, error = ARGV[5 * n - 4], tonumber(ARGV[5 * n - 1]), ARGV[5 * n]
  redis.call('ZREM', active, id)
  redis.call('SREM', hand, id)
  event('died', id, row.fence, string.match(error, '^%Z*'))
  row.state, row.flags, row.failures, row.deaths = 'd', row.flags - row.flags % 2, row.failures + failures, row.deaths + 1
  write_row_with_error(row, error)
  redis.call('ZADD', dead, now, id)
end
return verdicts
