#!lua flags=no-writes
-- count: Counts the jobs of the queue by the place where they are.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] active     ZSET    id -> lease deadline in ms
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] suspect    ZSET    id -> order
-- KEYS[7] dead       ZSET    id -> time of death in ms
-- KEYS[8] meta       HASH    paused, forgotten_early
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] limit      lanes at most
-- Returns {pending, scheduled, active, suspect, dead, ms until the next is due (-1: none), lanes that were not counted,
--   pending in lanes that may not be served now, why the queue is paused (false: it is not), results forgotten early}
local pending, lanes, held, scheduled, base = KEYS[1], KEYS[2], KEYS[3], KEYS[5], ARGV[1]
--- @include clock

local limit, waiting = tonumber(ARGV[2]), { [lanes] = 0, [held] = 0 }
for _, ring in ipairs({ lanes, held }) do
  for _, lane in ipairs(redis.call('ZRANGE', ring, 0, limit - 1)) do
    waiting[ring] = waiting[ring] + redis.call('ZCARD', lane == '' and pending or base .. 'g:' .. lane .. ':pending')
  end
end
local next_due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', '(inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local not_counted = math.max(0, redis.call('ZCARD', lanes) - limit) + math.max(0, redis.call('ZCARD', held) - limit)
local paused, forgotten = unpack(redis.call('HMGET', KEYS[8], 'paused', 'forgotten_early'))
return {
  waiting[lanes] + waiting[held], redis.call('ZCARD', scheduled), redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[6]), redis.call('ZCARD', KEYS[7]),
  next_due and math.max(0, tonumber(next_due) - now) or -1, not_counted, waiting[held], paused,
  tonumber(forgotten or 0),
}
