#!lua
-- enqueue: Adds the jobs that do not exist yet, to their lanes or to the schedule.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] limits     HASH    of the queue and its lanes
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] meta       HASH    protocol, flow
-- KEYS[7] wake       LIST    at most one token
-- KEYS[8+] row       STRING  one a job
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2+] nine a job: id, lane, priority (0 to 200), delay (ms), max_stalled, lease (ms), flags, extras, body
-- Returns {1 | 0 | 2, ...}: added, a job with this id exists, merged into the job that holds its unique key
local pending, lanes, held, limits, scheduled, meta, wake, base =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], ARGV[1]
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include new_row
--- @include order
--- @include lanes
--- @include line
--- @include add
--- @include wake
--- @include unique

local replies, fresh, winners, to_run = {}, {}, {}, false
for n = 1, #KEYS - 7 do
  local key, extras = KEYS[n + 7], ARGV[9 * n]
  replies[n] = (fresh[key] or redis.call('EXISTS', key) == 1) and 0 or 1
  fresh[key] = true
  read_line(extras_in(extras), ARGV[9 * n - 6])
  if replies[n] == 1 and extras ~= '' then
    winners[n] = winner_of(ARGV[9 * n - 7], extras)
    if winners[n] then replies[n] = 2 end
  end
end

local first_due = redis.call('ZRANGE', scheduled, 0, 0)[1]
for n, reply in ipairs(replies) do
  if reply > 0 then to_run = add_or_merge(winners[n], KEYS[n + 7], unpack(ARGV, 9 * n - 7, 9 * n + 1)) or to_run end
end

if not protocol then redis.call('HSET', meta, 'protocol', PROTOCOL) end
if to_run or redis.call('ZRANGE', scheduled, 0, 0)[1] ~= first_due then wake_one() end
return replies
