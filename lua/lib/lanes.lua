-- Puts jobs into the lane they belong to and the lane into the ring, or beside it while it may not be served.
-- Needs `base`, `pending`, `lanes`, `held`, `limits` and `flow`.
local function lane_key(lane)
  return lane == '' and pending or base .. 'g:' .. lane .. ':pending'
end

-- A turn is a whole number, its place in the ring, and behind the point how much of it has been used.
local function last_turn(ring)
  return math.floor(tonumber(redis.call('ZREVRANGE', ring, 0, 0, 'WITHSCORES')[2] or 0))
end

local function to_ring(lane)
  if flow and redis.call('HEXISTS', limits, 'paused:' .. lane) == 1 then
    redis.call('ZADD', held, 'inf', lane)
  else
    redis.call('ZADD', lanes, last_turn(lanes) + 1, lane)
  end
end

local function to_lane(lane, id, order)
  local served = redis.call('ZSCORE', lanes, lane) or flow and redis.call('ZSCORE', held, lane)
  if not served then to_ring(lane) end
  redis.call('ZADD', lane_key(lane), order, id)
end

local function drop_empty(lane)
  if redis.call('EXISTS', lane_key(lane)) == 1 then return false end
  redis.call('ZREM', lanes, lane)
  if flow then redis.call('ZREM', held, lane) end
  return true
end
