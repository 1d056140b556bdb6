#!lua flags=allow-oom
-- retry: Schedules failed jobs again after a back-off, and counts the failure.
-- KEYS[1] active     ZSET    id -> lease deadline in ms
-- KEYS[2] hand       SET     ids that the holder has
-- KEYS[3] scheduled  ZSET    id -> due in ms
-- KEYS[4] wake       LIST    at most one token
-- KEYS[5] events     STREAM  off the happy path
-- KEYS[6+] row       STRING  one a job
-- ARGV[1+] five a job: id, fence, nonce, delay (ms), error (reason NUL class NUL message NUL traceback)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand, scheduled, wake, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
--- @include clock
--- @include layout
--- @include row
--- @include order
--- @include token
--- @include wake
--- @include event

local verdicts, rows = {}, {}
for n = 1, #KEYS - 5 do
  local fence, nonce = ARGV[5 * n - 3], ARGV[5 * n - 2]
  local row, why = read_row(KEYS[n + 5])
  if holds(row, fence, nonce) then
    verdicts[n], rows[n] = 1, row
  elseif row and (row.state == 's' or row.state == 'p') and same_token(row, fence, nonce) then
    verdicts[n] = 1
  else
    verdicts[n] = why == 'missing' and -1 or 0
  end
end
local first_due = redis.call('ZRANGE', scheduled, 0, 0)[1]

for n, row in pairs(rows) do
  local id, delay, error = ARGV[5 * n - 4], math.max(0, tonumber(ARGV[5 * n - 1])), ARGV[5 * n]
  redis.call('ZREM', active, id)
  redis.call('SREM', hand, id)
  event('retried', id, row.fence, delay)
  row.state, row.flags, row.failures = 's', row.flags - row.flags % 2, math.min(row.failures + 1, 65535)
  row.order = order_of(row.priority, now + delay)
  write_row_with_error(row, error)
  redis.call('ZADD', scheduled, now + delay, id)
end

if redis.call('ZRANGE', scheduled, 0, 0)[1] ~= first_due then wake_one() end
return verdicts
