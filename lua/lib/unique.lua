-- One job for one unique key. The lock holds an id, and counts while that job lives (mode done), has not started (start,
-- debounce), or until the lock expires (ttl). Needs `now`, `base`, `pending`, `scheduled` and the fragments `layout`,
-- `row`, `new_row`, `order`, `line`.
local ALIAS_MS = 86400000
local LOCK_MS = 90 * 86400000 -- for jobs whose row is lost: their lock goes some day
local taken_here = {}

local function counts(id, unique)
  if taken_here[unique.key] == id or unique.mode == 'ttl' then return true end
  local row = read_row(base .. 'job:' .. id)
  if not row or row.state == 'd' then return false end
  return unique.mode == 'done' or row.state == 's' or row.state == 'p'
end

-- Returns the id that holds the unique key of a new job, or nil: then the key is free for it.
local function winner_of(id, extras)
  local unique = extras_in(extras).unique
  if not unique then return nil end
  local winner = taken_here[unique.key] or redis.call('GET', base .. 'unique:' .. unique.key)
  if winner and winner ~= id and counts(winner, unique) then return winner end
  taken_here[unique.key] = id
end

local function take_lock(id, extras)
  local unique = extras_in(extras).unique
  if unique then redis.call('SET', base .. 'unique:' .. unique.key, id, 'PX', unique.ms or LOCK_MS) end
end

-- Debounce: the winner takes over the arguments and the delay. Returns whether it is to run now.
local function replace(id, extras, body, due)
  local known = extras_in(extras)
  if known.unique.mode ~= 'debounce' then return false end
  local row = read_row(base .. 'job:' .. id)
  if not row or (row.state ~= 's' and row.state ~= 'p') then return false end
  if row.state == 's' then
    redis.call('ZREM', scheduled, id)
  else
    out_of_line(row.extras, row.lane, id)
  end
  local order, state = order_of(row.priority, due), due > now and 's' or 'p'
  local life = string.sub(row.raw, row.at + STANDS_SIZE + 1)
  redis.call('SET', row.key, new_row(row.priority, row.max_stalled, row.lease_ms, row.enqueued_at, row.lane, extras, body,
    state, row.flags, order) .. life)
  if state == 's' then
    redis.call('ZADD', scheduled, due, id)
  else
    to_line(known, row.lane, id, order)
  end
  return state == 'p'
end

-- Adds a new job, or makes it an alias of the winner of its unique key. Needs the fragment `add` too. Returns whether
-- something can run now.
local function add_or_merge(winner, key, id, lane, priority, delay, max_stalled, lease_ms, flags, extras, body)
  if winner then
    redis.call('SET', key, string.char(ALIAS_VERSION) .. winner, 'PX', ALIAS_MS)
    return replace(winner, extras, body, now + math.max(0, tonumber(delay)))
  end
  if extras ~= '' then take_lock(id, extras) end
  return add(key, id, lane, priority, delay, max_stalled, lease_ms, flags, extras, body)
end
