-- Writes one new job and puts it where it belongs; a job that waits for a group is scheduled for no time. Needs `now`,
-- `base`, `scheduled` and the fragments `layout`, `new_row`, `order`, `line`. Returns whether it can run now.
local function waits_for_group(extras)
  local after = extras and extras.after
  return after and (after.far or redis.call('SCARD', base .. 'group:' .. after.group) < after.size)
end

local function add(key, id, lane, priority, delay, max_stalled, lease_ms, flags, extras, body)
  local due = now + math.max(0, tonumber(delay))
  local known = extras_in(extras)
  local waits = waits_for_group(known)
  local order, state = order_of(tonumber(priority), due), (due > now or waits) and 's' or 'p'
  local row = new_row(priority, max_stalled, lease_ms, now, lane, extras, body, state, flags, order)
  -- The server doubles a string that grows, so a long row gets the room for its life at once.
  if #body >= 1000 then row = row .. struct.pack(LIFE, 0, 0, 0, 0, 0, 0, NO_NONCE, NO_HOLDER) end
  redis.call('SET', key, row)
  if state == 's' then
    redis.call('ZADD', scheduled, waits and 'inf' or due, id)
    return false
  end
  to_line(known, lane, id, order)
  return true
end
