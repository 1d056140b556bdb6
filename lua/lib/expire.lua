-- A job that nobody started in time dies instead of running late. Needs `now`, `now_us`, `nonce`, `dead`, `events` and the
-- fragments `layout`, `row`, `extras`, `let_go`, `event`. Its death needs a name of its own, as if it had been claimed.
local function has_expired(row)
  local ms = extras_of(row).expires
  return ms and row.attempts == 0 and now >= row.enqueued_at + ms
end

local function expire(id, row)
  event('died', id, row.fence, 'expired')
  let_go(row, id)
  row.fence, row.nonce, row.attempts = math.max(row.fence + 1, now_us), nonce, row.attempts + 1
  row.state, row.deaths = 'd', math.min(row.deaths + 1, 65535)
  write_row_with_error(row, 'expired\0\0\0')
  redis.call('ZADD', dead, now, id)
end
