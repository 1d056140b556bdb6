-- Gives the leases of jobs to one holder. Needs `now`, `now_us`, `active`, `hand` and the fragment `row`.
-- The first `starting` of them count as started. Returns {id, row, ...}.
local function lease(ids, rows, holder, nonce, starting)
  local leases, leased = {}, {}
  for n, id in ipairs(ids) do
    local row = rows[n]
    row.state = 'a'
    if n <= starting then set_flag(row, STARTED) else clear_flag(row, STARTED) end
    row.attempts, row.claimed_at, row.holder = row.attempts + 1, now, holder
    row.fence, row.nonce = math.max(row.fence + 1, now_us), nonce
    leases[2 * n - 1], leases[2 * n] = now + row.lease_ms, id
    leased[2 * n - 1], leased[2 * n] = id, write_row(row)
  end
  redis.call('ZADD', active, unpack(leases))
  redis.call('SADD', hand, unpack(ids))
  return leased
end
