#!lua flags=allow-oom
-- extend: Renews the leases of what a holder still has; what others took is not in the answer.
-- KEYS[1] active  ZSET  id -> lease deadline in ms
-- KEYS[2] hand    SET   ids that the holder has
-- ARGV[1] base    prefix of the queue's keys
-- ARGV[2] holder  1 to 40 characters
-- ARGV[3+] two a job that has started since: id, fence
-- Returns {id, fence, nonce, ...}
local active, hand, base, holder = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
--- @include clock
--- @include layout
--- @include row

local started = {}
for i = 3, #ARGV, 2 do
  started[ARGV[i]] = math.max(started[ARGV[i]] or 0, tonumber(ARGV[i + 1]))
end

local held, leases, starting, strangers = {}, {}, {}, {}
for _, id in ipairs(redis.call('SMEMBERS', hand)) do
  local row = read_row(base .. 'job:' .. id)
  if row and row.state == 'a' and row.holder == holder then
    held[#held + 1], held[#held + 2], held[#held + 3] = id, string.format('%.0f', row.fence), row.nonce
    leases[#leases + 1], leases[#leases + 2] = now + row.lease_ms, id
    if started[id] == row.fence and not has(row, STARTED) then starting[#starting + 1] = row end
  else
    strangers[#strangers + 1] = id
  end
end

-- A hand has no limit, and Lua unpacks about 8,000 values at most.
for i = 1, #leases, 1000 do
  redis.call('ZADD', active, unpack(leases, i, math.min(i + 999, #leases)))
end
for i = 1, #strangers, 1000 do
  redis.call('SREM', hand, unpack(strangers, i, math.min(i + 999, #strangers)))
end
for _, row in ipairs(starting) do
  set_flag(row, STARTED)
  write_row(row)
end
return held
