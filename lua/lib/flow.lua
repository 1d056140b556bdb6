-- How much of a lane, or of the queue, may start now. Needs `now`, `base`, `limits`, `held`, `lanes`, `active` and the
-- fragments `lanes`, `running`. A rate n/ms is a bucket that holds n and fills evenly; its state is tokens:since.
local function bucket(name)
  local rate = redis.call('HGET', limits, 'rate:' .. name)
  if not rate then return nil end
  local most, period = string.match(rate, '^(%d+)/(%d+)$')
  local tokens, since = string.match(redis.call('HGET', limits, 'bucket:' .. name) or '', '^(.+):(%d+)$')
  most, period = tonumber(most), tonumber(period)
  local filled = tonumber(tokens or most) + math.max(0, now - tonumber(since or now)) * most / period
  return { name = name, tokens = math.min(most, filled), ms = period / most }
end

local function take_tokens(one, count)
  one.tokens = one.tokens - count
  redis.call('HSET', limits, 'bucket:' .. one.name, string.format('%.6f:%.0f', one.tokens, now))
end

local function ms_to_token(one)
  return math.max(1, math.ceil((1 - one.tokens) * one.ms))
end

-- Returns how many more jobs the queue may start, at most `count`, and its bucket.
local function queue_room(count)
  local most, one = tonumber(redis.call('HGET', limits, 'concurrency') or 'inf'), bucket('')
  local room = math.min(count, most - redis.call('ZCARD', active))
  return math.max(0, math.min(room, one and math.floor(one.tokens) or room)), one
end

-- Returns how many more jobs of a lane may start, and until when it has to wait if there are none.
local function lane_room(lane)
  if redis.call('HEXISTS', limits, 'paused:' .. lane) == 1 then return 0, 'inf' end
  local most = redis.call('HGET', limits, 'concurrency:' .. lane)
  local room = most and tonumber(most) - redis.call('SCARD', running_key(lane)) or 1 / 0
  if room <= 0 then return 0, 'inf' end
  local one = bucket('lane:' .. lane)
  if one and one.tokens < 1 then return 0, now + ms_to_token(one) end
  return math.min(room, one and math.floor(one.tokens) or room)
end

-- Counts what a lane has started, and takes it out of the ring once it may start no more.
local function started_in_lane(lane, ids)
  if redis.call('HEXISTS', limits, 'concurrency:' .. lane) == 1 then
    redis.call('SADD', running_key(lane), unpack(ids))
  end
  local one = bucket('lane:' .. lane)
  if one then take_tokens(one, #ids) end
end

local function hold(lane, until_ms)
  redis.call('ZREM', lanes, lane)
  redis.call('ZADD', held, until_ms, lane)
end

local function weight_of(lane)
  return tonumber(redis.call('HGET', limits, 'weight:' .. lane) or 1)
end
