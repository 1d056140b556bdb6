-- Reading and writing rows. Needs the fragment `layout`.
local function has(row, flag)
  return bit.band(row.flags, flag) ~= 0
end

local function set_flag(row, flag)
  row.flags = bit.bor(row.flags, flag)
end

local function clear_flag(row, flag)
  row.flags = bit.band(row.flags, bit.bnot(flag))
end

-- False also for NaN: a score or a fence made of such a number would stop a script half-way.
local function is_exact(number)
  return number >= 0 and number <= 9007199254740992
end

-- Returns the extras of a row that has some, or nil if they are damaged.
local function read_extras(row)
  local from = IS_SIZE + #row.lane + 2
  local to = from + struct.unpack('<H', row.raw, from - 1)
  local text = string.sub(row.raw, from + 1, to)
  local read, extras = pcall(cjson.decode, text)
  local plain = not string.find(text, '[^ -~]') -- what else Lua takes for JSON, Python does not
  return to <= row.at and plain and read and type(extras) == 'table' and extras or nil
end

-- Returns the row below `key`, or nil and why there is none: 'missing', 'corrupt', 'done', 'alias' or
-- 'newer'.
local function read_row(key)
  local raw = redis.pcall('GET', key)
  if raw == false then return nil, 'missing' end
  if type(raw) ~= 'string' then return nil, 'corrupt' end
  local version = string.byte(raw)
  if version == ALIAS_VERSION then return nil, 'alias', raw end
  if #raw < IS_SIZE + STANDS_SIZE then return nil, 'corrupt' end
  if version == DONE_VERSION then return nil, 'done', raw end
  if version ~= ROW_VERSION then return nil, 'newer' end
  -- A table that is made in one piece costs half of one that grows.
  local _, priority, max_stalled, lease_ms, size, enqueued_at, lane_size = struct.unpack(IS, raw)
  local at = IS_SIZE + lane_size + size
  if #raw < at + STANDS_SIZE then return nil, 'corrupt' end
  local state, flags, order = struct.unpack(STANDS, raw, at + 1)
  local attempts, failures, stalled, deaths, fence, claimed_at, nonce, holder = 0, 0, 0, 0, 0, 0, NO_NONCE, ''
  if #raw >= at + STANDS_SIZE + LIFE_SIZE then
    attempts, failures, stalled, deaths, fence, claimed_at, nonce, holder =
      struct.unpack(LIFE, raw, at + STANDS_SIZE + 1)
    holder = string.match(holder, '^[^ ]*')
  end
  local exact = is_exact(order) and is_exact(enqueued_at) and is_exact(fence) and is_exact(claimed_at)
  if not (exact and string.find('spaud', state, 1, true)) then return nil, 'corrupt' end
  local row = {
    key = key, raw = raw, at = at, lane = string.sub(raw, IS_SIZE + 1, IS_SIZE + lane_size),
    priority = priority, max_stalled = max_stalled, lease_ms = lease_ms, enqueued_at = enqueued_at,
    state = state, flags = flags, order = order, attempts = attempts, failures = failures, stalled = stalled,
    deaths = deaths, fence = fence, claimed_at = claimed_at, nonce = nonce, holder = holder, extras = false,
  }
  if has(row, EXTRAS) then
    row.extras = read_extras(row)
    if not row.extras then return nil, 'corrupt' end
  end
  return row
end

local function pack_changing(row)
  local stands = struct.pack(STANDS, row.state, row.flags, row.order)
  if row.attempts == 0 then return stands end
  return stands
    .. struct.pack(LIFE, row.attempts, row.failures, row.stalled, row.deaths, row.fence, row.claimed_at, row.nonce,
      row.holder .. string.rep(' ', 40 - #row.holder))
end

-- Writes what can change and leaves payload and error alone: neither goes to the replicas again.
-- Returns the row without its error.
local function write_row(row)
  local changing = pack_changing(row)
  redis.call('SETRANGE', row.key, row.at, changing)
  return string.sub(row.raw, 1, row.at) .. changing
end

-- Writes the row anew with `error` (reason NUL class NUL message NUL traceback, maybe NUL since) behind it.
local function write_row_with_error(row, error)
  redis.call('SET', row.key, string.sub(row.raw, 1, row.at) .. pack_changing(row) .. error)
end
