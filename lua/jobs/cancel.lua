#!lua flags=allow-oom
-- cancel: Ends a job that waits; a job that runs is asked to stop, and gets no other turn.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] limits     HASH    of the queue and its lanes
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] suspect    ZSET    id -> order
-- KEYS[7] meta       HASH    protocol, flow
-- KEYS[8] events     STREAM  off the happy path
-- KEYS[9] row        STRING
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] id         JOB id
-- Returns 1 | 2 | 0 | -1 | -2: cancelled, asked to stop, over already, no such job, merged into another job
local pending, lanes, held, limits, scheduled, suspect, meta, events =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local base, id = ARGV[1], ARGV[2]
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include extras
--- @include lanes
--- @include line
--- @include event
--- @include let_go
--- @include group
--- @include done
--- @include cancelled

local row, why = read_row(KEYS[9])
if why == 'missing' then return -1 end
-- Others wait for the job that stands for this one.
if why == 'alias' then return -2 end
if not row then return 0 end
if row.state == 'd' then return 0 end
if row.state == 'a' then
  if not has(row, CANCELLED) then
    event('cancel asked', id, row.fence, row.holder)
    set_flag(row, CANCELLED)
    write_row(row)
  end
  return 2
end
read_line(row.extras, row.lane)

if row.state == 'p' then
  out_of_line(row.extras, row.lane, id)
else
  redis.call('ZREM', row.state == 's' and scheduled or suspect, id)
end
end_cancelled(id, row)
return 1
