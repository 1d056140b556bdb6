#!lua flags=allow-oom
-- release: Hands jobs back, at once to their old place or after a delay; costs no budget.
-- KEYS[1] active     ZSET    id -> lease deadline in ms
-- KEYS[2] hand       SET     ids that the holder has
-- KEYS[3] pending    ZSET    id -> order
-- KEYS[4] lanes      ZSET    lane -> turn
-- KEYS[5] held       ZSET    lane -> when it may be served again
-- KEYS[6] limits     HASH    of the queue and its lanes
-- KEYS[7] scheduled  ZSET    id -> due in ms
-- KEYS[8] meta       HASH    protocol, flow
-- KEYS[9] wake       LIST    at most one token
-- KEYS[10] events    STREAM  off the happy path
-- KEYS[11+] row      STRING  one a job
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2+] five a job: id, fence, nonce, delay (ms, 0 = at once), error (as retry's; empty: the old one stays)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand, pending, lanes, held, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local scheduled, meta, wake, events, base = KEYS[7], KEYS[8], KEYS[9], KEYS[10], ARGV[1]
--- @include clock
--- @include meta
--- @include layout
--- @include row
--- @include extras
--- @include order
--- @include token
--- @include lanes
--- @include line
--- @include running
--- @include wake
--- @include event
--- @include let_go
--- @include group
--- @include done
--- @include verdict
--- @include cancelled

local verdicts, rows = {}, {}
for n = 1, #KEYS - 10 do
  verdicts[n], rows[n] = verdict_of(KEYS[n + 10], ARGV[5 * n - 2], ARGV[5 * n - 1], 'spx')
  if rows[n] then read_line(rows[n].extras, rows[n].lane) end
end
redis.call('EXISTS', scheduled)

for n, row in pairs(rows) do
  local id, delay, error = ARGV[5 * n - 3], tonumber(ARGV[5 * n]), ARGV[5 * n + 1]
  redis.call('ZREM', active, id)
  redis.call('SREM', hand, id)
  left_lane(row.lane, id)
  clear_flag(row, STARTED)
  if has(row, CANCELLED) then
    end_cancelled(id, row)
  else
    event('released', id, row.fence, delay)
    if delay > 0 then
      row.state, row.order = 's', order_of(row.priority, now + delay)
      redis.call('ZADD', scheduled, now + delay, id)
    else
      row.state = 'p'
      to_line(row.extras, row.lane, id, row.order)
    end
    if error == '' then write_row(row) else write_row_with_error(row, error) end
  end
end

if next(rows) then wake_one() end
return verdicts
