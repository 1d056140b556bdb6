#!lua
-- fire: Enqueues the job of one slot of a schedule, unless that slot or a later one has been fired.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] held       ZSET    lane -> when it may be served again
-- KEYS[4] limits     HASH    of the queue and its lanes
-- KEYS[5] scheduled  ZSET    id -> due in ms
-- KEYS[6] meta       HASH    protocol, flow
-- KEYS[7] wake       LIST    at most one token
-- KEYS[8] slots      HASH    schedule -> its last slot
-- KEYS[9] row        STRING
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2] schedule   its name
-- ARGV[3] slot       text that sorts by time
-- ARGV[4+] nine: id, lane, priority (0 to 200), delay (ms), max_stalled, lease (ms), flags, extras, body
-- Returns 1 | 0: 1 = added, or merged into the job that holds its unique key; 0 = the slot was fired before
local pending, lanes, held, limits, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local meta, wake, slots, base = KEYS[6], KEYS[7], KEYS[8], ARGV[1]
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

local last = redis.call('HGET', slots, ARGV[2])
if last and last >= ARGV[3] then return 0 end
local known, extras, winner = redis.call('EXISTS', KEYS[9]) == 1, ARGV[11], nil
read_line(extras_in(extras), ARGV[5])
if not known and extras ~= '' then winner = winner_of(ARGV[4], extras) end

redis.call('HSET', slots, ARGV[2], ARGV[3])
if not known then
  add_or_merge(winner, KEYS[9], unpack(ARGV, 4, 12))
  wake_one()
end
if not protocol then redis.call('HSET', meta, 'protocol', PROTOCOL) end
return 1
