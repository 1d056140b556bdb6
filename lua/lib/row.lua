-- A row is one string: what the job is (never changes), where it stands, and from the first claim on its life.
-- Behind them stands the last error. docs/explanation/job-row tells why.
local IS, STANDS, LIFE = '<BBHIIdB', '<c1Bd', '<IHHHddc8c40'
local IS_SIZE, STANDS_SIZE, LIFE_SIZE = 21, 10, 74
local ROW_VERSION, DONE_VERSION, UNBOUNDED = 1, 129, 65535
local STARTED, VIA_OUTBOX = 1, 2
local NO_NONCE = string.rep('\0', 8)

-- Returns the row below `key`, or nil and why there is none: 'missing', 'corrupt', 'done' or 'newer'.
local function read_row(key)
  local raw = redis.pcall('GET', key)
  if raw == false then return nil, 'missing' end
  if type(raw) ~= 'string' or #raw < IS_SIZE + STANDS_SIZE then return nil, 'corrupt' end
  local version = string.byte(raw)
  if version == DONE_VERSION then return nil, 'done', raw end
  if version ~= ROW_VERSION then return nil, 'newer' end
  local row = { key = key, raw = raw }
  local size, lane_size
  row.version, row.priority, row.max_stalled, row.lease_ms, size, row.enqueued_at, lane_size = struct.unpack(IS, raw)
  row.at = IS_SIZE + lane_size + size
  if #raw < row.at + STANDS_SIZE then return nil, 'corrupt' end
  row.lane = string.sub(raw, IS_SIZE + 1, IS_SIZE + lane_size)
  row.state, row.flags, row.order = struct.unpack(STANDS, raw, row.at + 1)
  if #raw < row.at + STANDS_SIZE + LIFE_SIZE then
    row.attempts, row.failures, row.stalled, row.deaths = 0, 0, 0, 0
    row.fence, row.claimed_at, row.nonce, row.holder = 0, 0, NO_NONCE, ''
    return row
  end
  row.attempts, row.failures, row.stalled, row.deaths, row.fence, row.claimed_at, row.nonce, row.holder =
    struct.unpack(LIFE, raw, row.at + STANDS_SIZE + 1)
  row.holder = string.match(row.holder, '^[^ ]*')
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

-- Writes the row anew with `error` (reason NUL class NUL message NUL traceback) behind it.
local function write_row_with_error(row, error)
  redis.call('SET', row.key, string.sub(row.raw, 1, row.at) .. pack_changing(row) .. error)
end

local function has_started(row)
  return row.flags % 2 == STARTED
end
