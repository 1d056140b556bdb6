#!lua flags=allow-oom
-- discard: Takes a job that nobody holds out of the queue for good.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] scheduled  ZSET    id -> due in ms
-- KEYS[4] suspect    ZSET    id -> order
-- KEYS[5] dead       ZSET    id -> time of death in ms
-- KEYS[6] events     STREAM  off the happy path
-- KEYS[7] meta       HASH    protocol, flow
-- KEYS[8] held       ZSET    lane -> when it may be served again
-- KEYS[9] limits     HASH    of the queue and its lanes
-- KEYS[10] row       STRING
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] id         JOB id
-- Returns 1 | 0 | -1: discarded, in someone's hands, no such job
local pending, lanes, scheduled, suspect, dead, events, meta, held, limits =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
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

local row = read_row(KEYS[10])
if not row then return -1 end
if row.state == 'a' then return 0 end
read_line(row.extras, row.lane)

event('discarded', id, row.fence, row.state)
let_go(row, id)
leave_group(extras_of(row).group, id)
if row.state == 'p' then
  out_of_line(row.extras, row.lane, id)
else
  redis.call('ZREM', ({ s = scheduled, u = suspect, d = dead })[row.state], id)
end
redis.call('DEL', KEYS[10])
return 1
