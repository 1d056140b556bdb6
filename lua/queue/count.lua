#!lua flags=no-writes
-- count: Counts the jobs of the queue by the place where they are.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] active     ZSET    id -> lease deadline in ms
-- KEYS[4] scheduled  ZSET    id -> due in ms
-- KEYS[5] suspect    ZSET    id -> order
-- KEYS[6] dead       ZSET    id -> time of death in ms
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] limit      lanes at most
-- Returns {pending, scheduled, active, suspect, dead, ms until the next is due (-1: none), lanes that were not counted}
local pending, lanes, base = KEYS[1], KEYS[2], ARGV[1]
--- @include clock
--- @include lanes

local ring = redis.call('ZRANGE', lanes, 0, tonumber(ARGV[2]) - 1)
local waiting = 0
for _, lane in ipairs(ring) do
  waiting = waiting + redis.call('ZCARD', lane_key(lane))
end
local next_due = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')[2]
return {
  waiting, redis.call('ZCARD', KEYS[4]), redis.call('ZCARD', KEYS[3]), redis.call('ZCARD', KEYS[5]),
  redis.call('ZCARD', KEYS[6]), next_due and math.max(0, tonumber(next_due) - now) or -1,
  redis.call('ZCARD', lanes) - #ring,
}
