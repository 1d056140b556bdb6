-- Where a pending job waits: in its lane, or if it is isolated in a line of that lane for jobs which are run alone. These have
-- a ring of their own. Only a job's extras tell, so the keys are not declared. Needs `base` and the fragment `lanes`.
local function extras_in(text)
  return text ~= '' and cjson.decode(text) or nil
end

local function isolated_key(lane)
  return base .. 'g:' .. lane .. ':isolated'
end

-- Reads what the other two write.
local function read_line(extras, lane)
  if extras and extras.isolate then
    redis.call('EXISTS', base .. 'isolated', isolated_key(lane))
  else
    redis.call('EXISTS', lane_key(lane))
  end
end

local function to_line(extras, lane, id, order)
  if not (extras and extras.isolate) then return to_lane(lane, id, order) end
  local ring = base .. 'isolated'
  if not redis.call('ZSCORE', ring, lane) then redis.call('ZADD', ring, last_turn(ring) + 1, lane) end
  redis.call('ZADD', isolated_key(lane), order, id)
end

local function out_of_line(extras, lane, id)
  if extras and extras.isolate then
    redis.call('ZREM', isolated_key(lane), id)
    if redis.call('EXISTS', isolated_key(lane)) == 0 then redis.call('ZREM', base .. 'isolated', lane) end
  else
    redis.call('ZREM', lane_key(lane), id)
    drop_empty(lane)
  end
end
