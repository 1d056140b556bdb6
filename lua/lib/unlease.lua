-- Takes jobs out of hands that lost them. Needs `now`, `base`, `active`, `suspect`, `dead`, `events` and the fragments
-- `row`, `line`, `running`, `event`, `let_go`, `cancelled`. A nonce that is wiped can never finish the job again.
local function take_back(id, row)
  redis.call('ZREM', active, id)
  redis.call('SREM', base .. 'hand:' .. row.holder, id)
  left_lane(row.lane, id)
  clear_flag(row, STARTED)
end

local function hand_back(id, row, kind)
  take_back(id, row)
  if has(row, CANCELLED) then return end_cancelled(id, row) end
  event(kind, id, row.fence, row.holder)
  row.state, row.nonce = 'p', NO_NONCE
  write_row(row)
  to_line(row.extras, row.lane, id, row.order)
end

local function to_suspects(id, row, kind)
  take_back(id, row)
  if has(row, CANCELLED) then return end_cancelled(id, row) end
  event(kind, id, row.fence, row.holder)
  row.state, row.nonce = 'u', NO_NONCE
  write_row(row)
  redis.call('ZADD', suspect, row.order, id)
end

-- Charges a stall. The last one before death is run alone, so that only the job that kills can die of it.
-- Returns 'stalled' or 'died'.
local function stall(id, row)
  row.stalled = math.min(row.stalled + 1, 65535)
  if row.max_stalled == UNBOUNDED or row.stalled < row.max_stalled - 1 then
    hand_back(id, row, 'stalled')
    return 'stalled'
  end
  if row.stalled < row.max_stalled or has(row, CANCELLED) then
    to_suspects(id, row, 'stalled')
    return 'stalled'
  end
  take_back(id, row)
  let_go(row, id)
  event('died', id, row.fence, 'stalled')
  row.state, row.deaths = 'd', math.min(row.deaths + 1, 65535)
  local behind = string.sub(row.raw, row.at + STANDS_SIZE + LIFE_SIZE + 1)
  write_row_with_error(row, 'stalled' .. (string.match(behind, '%z.*') or '\0\0\0'))
  redis.call('ZADD', dead, now, id)
  return 'died'
end
