-- The lean string that stays of a job that ended: state 'c' completed, 'x' cancelled. Needs `now`, and the fragment `row`.
local function write_done(row, state, result, ttl)
  if ttl <= 0 then return redis.call('DEL', row.key) end
  local waited = math.max(0, (row.claimed_at > 0 and row.claimed_at or now) - row.enqueued_at)
  local ran = row.claimed_at > 0 and math.max(0, now - row.claimed_at) or 0
  redis.call('SET', row.key, struct.pack(DONE, DONE_VERSION, state, row.fence, row.enqueued_at, waited, ran,
    math.min(row.attempts, 65535)) .. result, 'PX', ttl)
end

-- Whether the lease with this fence is the one that ended the job in one of `states`.
local function ended_as(raw, states, fence)
  return string.find(states, string.sub(raw, 2, 2), 1, true) and struct.unpack('<d', raw, 3) == tonumber(fence)
end
