-- Counts what runs in lanes with a limit, by id: an id that is counted twice counts once. Needs `base`, `limits`, `held`,
-- `flow` and the fragment `lanes`.
local function running_key(lane)
  return base .. 'g:' .. lane .. ':running'
end

-- Returns whether the lane may be served again.
local function left_lane(lane, id)
  if not flow or redis.call('SREM', running_key(lane), id) == 0 then return false end
  if redis.call('ZSCORE', held, lane) ~= 'inf' then return false end
  if redis.call('HEXISTS', limits, 'paused:' .. lane) == 1 then return false end
  redis.call('ZREM', held, lane)
  to_ring(lane)
  return true
end
