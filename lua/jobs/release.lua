#!lua flags=allow-oom
-- release: Hands jobs back, at once to their old place or after a delay; costs no budget.
-- KEYS[1] active     ZSET    id -> lease deadline in ms
-- KEYS[2] hand       SET     ids that the holder has
-- KEYS[3] pending    ZSET    id -> order
-- KEYS[4] lanes      ZSET    lane -> turn
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] wake       LIST    at most one token
-- KEYS[7] events     STREAM  off the happy path
-- KEYS[8+] row       STRING  one a job
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2+] four a job: id, fence, nonce, delay (ms, 0 = at once)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand, pending, lanes, scheduled, wake, events, base =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], ARGV[1]
--- @include clock
--- @include layout
--- @include row
--- @include order
--- @include token
--- @include lanes
--- @include wake
--- @include event

local verdicts, rows = {}, {}
for n = 1, #KEYS - 7 do
  local fence, nonce = ARGV[4 * n - 1], ARGV[4 * n]
  local row, why = read_row(KEYS[n + 7])
  if holds(row, fence, nonce) then
    verdicts[n], rows[n] = 1, row
    redis.call('EXISTS', lane_key(row.lane))
  elseif row and (row.state == 's' or row.state == 'p') and same_token(row, fence, nonce) then
    verdicts[n] = 1
  else
    verdicts[n] = why == 'missing' and -1 or 0
  end
end
redis.call('EXISTS', scheduled)

for n, row in pairs(rows) do
  local id, delay = ARGV[4 * n - 2], tonumber(ARGV[4 * n + 1])
  redis.call('ZREM', active, id)
  redis.call('SREM', hand, id)
  event('released', id, row.fence, delay)
  row.flags = row.flags - row.flags % 2
  if delay > 0 then
    row.state, row.order = 's', order_of(row.priority, now + delay)
    redis.call('ZADD', scheduled, now + delay, id)
  else
    row.state = 'p'
    to_lane(row.lane, id, row.order)
  end
  write_row(row)
end

if next(rows) then wake_one() end
return verdicts
