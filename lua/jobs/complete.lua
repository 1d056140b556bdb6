#!lua flags=allow-oom
-- complete: Ends jobs whose token still holds; the payload goes, one lean string stays for a while.
-- KEYS[1] active     ZSET    id -> lease deadline in ms
-- KEYS[2] hand       SET     ids that the holder has
-- KEYS[3] pending    ZSET    id -> order
-- KEYS[4] lanes      ZSET    lane -> turn
-- KEYS[5] held       ZSET    lane -> when it may be served again
-- KEYS[6] limits     HASH    of the queue and its lanes
-- KEYS[7] scheduled  ZSET    id -> due in ms
-- KEYS[8] meta       HASH    protocol, flow, results, forgotten_early
-- KEYS[9] wake       LIST    at most one token
-- KEYS[10] handoff   LIST    what other queues are to be told
-- KEYS[11+] row      STRING  one a job
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] results    kept within one time to live before they are kept for ten seconds only
-- ARGV[3+] six a job: id, fence, nonce, time to live (ms, 0 = keep nothing), result (task NUL holder NUL value), parcel of
--   the successor ('' = none)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand, pending, lanes, held, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local scheduled, meta, wake, handoff, base = KEYS[7], KEYS[8], KEYS[9], KEYS[10], ARGV[1]
--- @include clock
--- @include meta
--- @include layout
--- @include row
--- @include extras
--- @include new_row
--- @include order
--- @include token
--- @include lanes
--- @include line
--- @include running
--- @include wake
--- @include add
--- @include follow
--- @include group
--- @include let_go
--- @include done
--- @include verdict
--- @include results

local verdicts, rows, ended = {}, {}, {}
for n = 1, #KEYS - 10 do
  verdicts[n], rows[n] = verdict_of(KEYS[n + 10], ARGV[6 * n - 2], ARGV[6 * n - 1], 'c')
  if rows[n] then ended[#ended + 1] = ARGV[6 * n - 3] end
end
if #ended == 0 then return verdicts end

redis.call('ZREM', active, unpack(ended))
redis.call('SREM', hand, unpack(ended))
local to_run = false
for n, row in pairs(rows) do
  local id, ttl, result, parcel = ARGV[6 * n - 3], tonumber(ARGV[6 * n]), ARGV[6 * n + 1], ARGV[6 * n + 2]
  if flow then to_run = left_lane(row.lane, id) or to_run end
  if has(row, EXTRAS) then
    let_go(row, id)
    to_run = leave_group(extras_of(row).group, id) or to_run
  end
  if parcel ~= '' then to_run = follow(parcel) or to_run end
  write_done(row, 'c', result, kept_for(ttl))
end
note_results()
if to_run or flow then wake_one() end
return verdicts
