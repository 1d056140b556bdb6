#!lua flags=allow-oom
-- hasten: Brings jobs that wait for a time forward, expiry included, as if they had been enqueued so much earlier.
-- KEYS[1] scheduled  ZSET    id -> due in ms
-- KEYS[2] meta       HASH    protocol
-- KEYS[3] wake       LIST    at most one token
-- KEYS[4+] row       STRING  one a job
-- ARGV[1] by         ms
-- ARGV[2+] two a job: id, due as the caller knows it (ms)
-- Returns {1 | 0, ...}: 0 = it is not due then, or not any more
local scheduled, meta, wake, by = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include wake

local ENQUEUED_AT = 12 -- where it stands in a row
local hastened, rows = {}, {}
for n = 1, #KEYS - 3 do
  local row = read_row(KEYS[n + 3])
  local waits = row and row.state == 's' and redis.call('ZSCORE', scheduled, ARGV[2 * n])
  hastened[n], rows[n] = 0, waits and tonumber(waits) == tonumber(ARGV[2 * n + 1]) and row or nil
end

for n, row in pairs(rows) do
  row.order = row.order - by
  write_row(row)
  redis.call('SETRANGE', row.key, ENQUEUED_AT, struct.pack('<d', math.max(0, row.enqueued_at - by)))
  redis.call('ZINCRBY', scheduled, -by, ARGV[2 * n])
  hastened[n] = 1
end
if next(rows) then wake_one() end
return hastened
