#!lua flags=allow-oom
-- promote: Moves jobs that are due from the schedule to their lanes, and lanes that may be served again into the ring.
-- KEYS[1] scheduled  ZSET    id -> due in ms
-- KEYS[2] pending    ZSET    id -> order
-- KEYS[3] lanes      ZSET    lane -> turn
-- KEYS[4] held       ZSET    lane -> when it may be served again
-- KEYS[5] limits     HASH    of the queue and its lanes
-- KEYS[6] active     ZSET    id -> lease deadline in ms
-- KEYS[7] suspect    ZSET    id -> order
-- KEYS[8] isolated   ZSET    lane -> turn
-- KEYS[9] dead       ZSET    id -> time of death in ms
-- KEYS[10] meta      HASH    protocol, flow, paused, audit
-- KEYS[11] wake      LIST    at most one token
-- KEYS[12] events    STREAM  off the happy path
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] limit      jobs at most
-- Returns {again (1: the limit was reached), promoted, ms until there is something to do again (-1: nothing is known),
--   alone (1: something may be run alone now)}
local scheduled, pending, lanes, held, limits, active = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local suspect, isolated, dead, meta, wake, events = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local base, limit = ARGV[1], tonumber(ARGV[2])
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include lanes
--- @include line
--- @include running
--- @include flow
--- @include alone
--- @include reopen
--- @include wake
--- @include event
--- @include lost

local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', 0, limit)
local rows, reasons = {}, {}
for n, id in ipairs(due) do
  rows[n], reasons[n] = read_row(base .. 'job:' .. id)
  if rows[n] then read_line(rows[n].extras, rows[n].lane) end
end

local promoted = 0
for n, id in ipairs(due) do
  local row = rows[n]
  -- A pending row was put here by a worker of an older release that could not read it.
  if row and (row.state == 's' or row.state == 'p') then
    redis.call('ZREM', scheduled, id)
    row.state = 'p'
    write_row(row)
    to_line(row.extras, row.lane, id, row.order)
    promoted = promoted + 1
  elseif reasons[n] == 'newer' then
    redis.call('ZADD', scheduled, now + 30000, id)
  else
    redis.call('ZREM', scheduled, id)
    lose(id, row and row.state or reasons[n])
  end
end

local next_ms = tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] or 'inf')
local reopened = false
if flow then
  reopened = reopen_lanes(limit)
  reopened = audit_lanes() or reopened
  next_ms = math.min(next_ms, next_opening())
end
if promoted > 0 or reopened then wake_one() end
local wrong = {}
local alone = room_for_one() > 0 and (next_suspect(wrong) or next_isolated() or #wrong > 0)
return {
  #due == limit and 1 or 0, promoted, next_ms < 1 / 0 and math.max(0, next_ms - now) or -1, alone and 1 or 0,
}
