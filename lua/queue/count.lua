#!lua flags=no-writes
-- count: Counts the jobs of the queue by the place where they are.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] active     ZSET    id -> lease deadline in ms
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] suspect    ZSET    id -> order
-- KEYS[7] isolated   ZSET    lane -> turn
-- KEYS[8] dead       ZSET    id -> time of death in ms
-- KEYS[9] meta       HASH    paused, forgotten_early
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] limit      lanes at most
-- Returns {pending, scheduled, active, suspect, dead, ms until the next is due (-1: none), lanes that were not counted,
--   pending in lanes that may not be served now, why the queue is paused (false: it is not), results forgotten early,
--   lanes that have work, scheduled that wait for a group, ms since the oldest pending became ready (-1: none)}
local pending, lanes, held, scheduled, isolated, base = KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[7], ARGV[1]
--- @include clock

-- Of one priority the first is the oldest, so one look at each priority that is there finds the oldest of all.
local ONE_PRIORITY = 8796093022208
local function oldest_in(key)
  local oldest, from = now, 0
  while true do
    local least = string.format('%.0f', from)
    local order = tonumber(redis.call('ZRANGEBYSCORE', key, least, 'inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    if not order then return oldest end
    oldest = math.min(oldest, order % ONE_PRIORITY)
    from = order - order % ONE_PRIORITY + ONE_PRIORITY
  end
end

local function key_of(ring, lane)
  if ring == isolated then return base .. 'g:' .. lane .. ':isolated' end
  return lane == '' and pending or base .. 'g:' .. lane .. ':pending'
end

local limit, oldest, not_counted = tonumber(ARGV[2]), now, 0
local waiting, with_work = { [lanes] = 0, [held] = 0, [isolated] = 0 }, 0
for _, ring in ipairs({ lanes, held, isolated }) do
  local size = redis.call('ZCARD', ring)
  not_counted, with_work = not_counted + math.max(0, size - limit), with_work + size
  for _, lane in ipairs(redis.call('ZRANGE', ring, 0, limit - 1)) do
    local key = key_of(ring, lane)
    waiting[ring] = waiting[ring] + redis.call('ZCARD', key)
    oldest = math.min(oldest, oldest_in(key))
    local twice = ring == isolated and (redis.call('ZSCORE', lanes, lane) or redis.call('ZSCORE', held, lane))
    if twice then with_work = with_work - 1 end
  end
end
local total = waiting[lanes] + waiting[held] + waiting[isolated]
local next_due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', '(inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local paused, forgotten = unpack(redis.call('HMGET', KEYS[9], 'paused', 'forgotten_early'))
return {
  total, redis.call('ZCARD', scheduled), redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[6]), redis.call('ZCARD', KEYS[8]),
  next_due and math.max(0, tonumber(next_due) - now) or -1, not_counted, waiting[held], paused,
  tonumber(forgotten or 0), with_work, redis.call('ZCOUNT', scheduled, 'inf', 'inf'),
  total > 0 and now - oldest or -1,
}
