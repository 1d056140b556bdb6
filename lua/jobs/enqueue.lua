#!lua
-- enqueue: Adds the jobs that do not exist yet, to their lanes or to the schedule.
-- KEYS[1] pending    ZSET    id -> order
-- KEYS[2] lanes      ZSET    lane -> turn
-- KEYS[3] scheduled  ZSET    id -> due in ms
-- KEYS[4] meta       HASH    protocol
-- KEYS[5] wake       LIST    at most one token
-- KEYS[6+] row       STRING  one a job
-- ARGV[1] base       prefix of the queue's keys
-- ARGV[2+] eight a job: id, lane, priority (0 to 200), delay (ms), max_stalled, lease (ms), flags, body
-- Returns {1 | 0, ...}: 0 = a job with this id exists already
local pending, lanes, scheduled, meta, wake, base = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1]
--- @include clock
--- @include protocol
--- @include layout
--- @include new_row
--- @include order
--- @include lanes
--- @include wake

local added, fresh = {}, {}
for n = 1, #KEYS - 5 do
  local key = KEYS[n + 5]
  added[n] = (fresh[key] or redis.call('EXISTS', key) == 1) and 0 or 1
  fresh[key] = true
  redis.call('EXISTS', lane_key(ARGV[8 * n - 5]))
end

local first_due = redis.call('ZRANGE', scheduled, 0, 0)[1]
local to_run
for n = 1, #added do
  if added[n] == 1 then
    local id, lane, priority, delay, max_stalled, lease_ms, flags, body = unpack(ARGV, 8 * n - 6, 8 * n + 1)
    local due = now + math.max(0, tonumber(delay))
    local order = order_of(tonumber(priority), due)
    local state = due > now and 's' or 'p'
    local row = new_row(priority, max_stalled, lease_ms, now, lane, body, state, flags, order)
    -- The server doubles a string that grows, so a long row gets the room for its life at once.
    if #body >= 1000 then row = row .. struct.pack(LIFE, 0, 0, 0, 0, 0, 0, NO_NONCE, NO_HOLDER) end
    redis.call('SET', KEYS[n + 5], row)
    if state == 's' then
      redis.call('ZADD', scheduled, due, id)
    else
      to_lane(lane, id, order)
      to_run = true
    end
  end
end

if not protocol then redis.call('HSET', meta, 'protocol', PROTOCOL) end
if to_run or redis.call('ZRANGE', scheduled, 0, 0)[1] ~= first_due then wake_one() end
return added
