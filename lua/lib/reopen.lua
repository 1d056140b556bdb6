-- What a pass does for lanes that wait. Needs `now`, `meta`, `limits`, `held`, `lanes`, `active` and the fragments `lanes`,
-- `running`, `flow`.

-- Lanes whose rate allows another job go back into the ring.
local function reopen_lanes(limit)
  local open = redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, limit)
  for _, lane in ipairs(open) do
    redis.call('ZREM', held, lane)
    if redis.call('EXISTS', lane_key(lane)) == 1 then to_ring(lane) end
  end
  return #open > 0
end

-- Uncounts what a lane counts as running and nobody holds: a row that was lost leaves that behind. Each pass looks at about
-- a hundred limits and ten jobs of each lane, so all lanes have their turn in (limits / 100) passes.
-- Returns whether a lane may be served again.
local function audit_lanes()
  local from = redis.call('HGET', meta, 'audit') or '0'
  local to, fields = unpack(redis.call('HSCAN', limits, from, 'MATCH', 'concurrency:*', 'COUNT', 100))
  if to ~= from then redis.call('HSET', meta, 'audit', to) end
  local reopened = false
  for i = 1, #fields, 2 do
    local lane = string.sub(fields[i], #'concurrency:' + 1)
    for _, id in ipairs(redis.call('SRANDMEMBER', running_key(lane), 10)) do
      if not redis.call('ZSCORE', active, id) then reopened = left_lane(lane, id) or reopened end
    end
  end
  return reopened
end

-- Returns the server's ms at which a rate allows the next job.
local function next_opening()
  local opens = tonumber(redis.call('ZRANGE', held, 0, 0, 'WITHSCORES')[2] or 'inf')
  local one = bucket('')
  if one and one.tokens < 1 and redis.call('EXISTS', lanes) == 1 then opens = math.min(opens, now + ms_to_token(one)) end
  return opens
end
