-- Bounds the results that are kept: beyond so many within one time to live, a result is kept for ten seconds and counted
-- as forgotten early. Each time to live has a count of its own. Needs `now`, `meta`, and the most as ARGV[2].
local BRIEFLY = 10000
local counted = {}

local function count_of(ttl)
  if not counted[ttl] then
    local window = math.floor(now / ttl)
    local since, count = string.match(redis.call('HGET', meta, 'results:' .. ttl) or '', '^(%d+):(%d+)$')
    counted[ttl] = { window = window, count = tonumber(since) == window and tonumber(count) or 0 }
  end
  return counted[ttl]
end

local function kept_for(ttl)
  if ttl <= BRIEFLY then return ttl end
  local one = count_of(ttl)
  one.count = one.count + 1
  if one.count <= tonumber(ARGV[2]) then return ttl end
  redis.call('HINCRBY', meta, 'forgotten_early', 1)
  return BRIEFLY
end

local function note_results()
  for ttl, one in pairs(counted) do
    redis.call('HSET', meta, 'results:' .. ttl, string.format('%.0f:%.0f', one.window, one.count))
  end
end
