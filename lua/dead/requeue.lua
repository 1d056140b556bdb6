#!lua flags=allow-oom
-- requeue: Gives a dead job a new life with new budgets, from what the database knows of it.
-- KEYS[1] pending  ZSET    id -> order
-- KEYS[2] lanes    ZSET    lane -> turn
-- KEYS[3] held     ZSET    lane -> when it may be served again
-- KEYS[4] limits   HASH    of the queue and its lanes
-- KEYS[5] dead     ZSET    id -> time of death in ms
-- KEYS[6] meta     HASH    protocol, flow
-- KEYS[7] wake     LIST    at most one token
-- KEYS[8] events   STREAM  off the happy path
-- KEYS[9] row      STRING
-- ARGV[1] base         prefix of the queue's keys
-- ARGV[2] id           JOB id
-- ARGV[3] death key    fence:nonce of the lease that died
-- ARGV[4] lane         '' or a lane's name
-- ARGV[5] priority     0 to 200
-- ARGV[6] max_stalled  65535 = unbounded
-- ARGV[7] lease        ms
-- ARGV[8] flags        bits
-- ARGV[9] attempts     claims so far
-- ARGV[10] deaths      deaths so far
-- ARGV[11] enqueued_at server ms
-- ARGV[12] extras     JSON or ''
-- ARGV[13] body        task NUL alias NUL headers NUL options NUL payload
-- Returns 1 | 0: 0 = the job lives, is done, or died once more since
local pending, lanes, held, limits, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local meta, wake, events, key = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local base, id, lane, extras, body = ARGV[1], ARGV[2], ARGV[4], ARGV[12], ARGV[13]
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include new_row
--- @include order
--- @include death_key
--- @include lanes
--- @include line
--- @include wake
--- @include event

local row, why = read_row(key)
if why ~= 'missing' and not (row and row.state == 'd' and death_key(row) == ARGV[3]) then return 0 end
local known = extras_in(extras)
read_line(known, lane)
redis.call('EXISTS', dead)

local priority, fence = tonumber(ARGV[5]), tonumber(string.match(ARGV[3], '^%d+') or 0)
local order = order_of(priority, now)
event('requeued', id, fence, ARGV[3])
redis.call('ZREM', dead, id)
redis.call('SET', key, new_row(priority, ARGV[6], ARGV[7], ARGV[11], lane, extras, body, 'p', ARGV[8], order)
  .. struct.pack(LIFE, ARGV[9], 0, 0, ARGV[10], fence, 0, NO_NONCE, NO_HOLDER))
to_line(known, lane, id, order)
if not protocol then redis.call('HSET', meta, 'protocol', PROTOCOL) end
wake_one()
return 1
