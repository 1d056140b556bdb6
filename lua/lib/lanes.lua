-- Puts jobs into the lane they belong to and the lane into the ring. Needs `base`, `pending`, `lanes`.
local function lane_key(lane)
  return lane == '' and pending or base .. 'g:' .. lane .. ':pending'
end

local function last_turn()
  return tonumber(redis.call('ZREVRANGE', lanes, 0, 0, 'WITHSCORES')[2] or 0)
end

local function to_lane(lane, id, order)
  local key = lane_key(lane)
  if not redis.call('ZSCORE', lanes, lane) then redis.call('ZADD', lanes, last_turn() + 1, lane) end
  redis.call('ZADD', key, order, id)
end

local function out_of_lane(lane, id)
  local key = lane_key(lane)
  redis.call('ZREM', key, id)
  if redis.call('EXISTS', key) == 0 then redis.call('ZREM', lanes, lane) end
end
