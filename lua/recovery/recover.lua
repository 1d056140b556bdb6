#!lua flags=allow-oom
-- recover: Takes back expired leases: a stall for a job that had started, none for one that had not.
-- KEYS[1] active   ZSET    id -> lease deadline in ms
-- KEYS[2] pending  ZSET    id -> order
-- KEYS[3] lanes    ZSET    lane -> turn
-- KEYS[4] held     ZSET    lane -> when it may be served again
-- KEYS[5] limits   HASH    of the queue and its lanes
-- KEYS[6] suspect  ZSET    id -> order
-- KEYS[7] dead     ZSET    id -> time of death in ms
-- KEYS[8] meta     HASH    protocol, flow, lease_ms, last_pass, gap_at, clamp
-- KEYS[9] wake     LIST    at most one token
-- KEYS[10] events  STREAM  off the happy path
-- ARGV[1] base     prefix of the queue's keys
-- ARGV[2] beat     ms between two passes
-- ARGV[3] limit    leases at most
-- Returns {again (1: the limit was reached), grace left in ms for the default lease, {stalled id, ...}, {died id, ...},
--   {id that had not started, ...}, suspects, deaths to be mirrored}
local active, pending, lanes, held, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local suspect, dead, meta, wake, events = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local base, beat, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include extras
--- @include lanes
--- @include running
--- @include wake
--- @include event
--- @include lost
--- @include let_go
--- @include group
--- @include done
--- @include cancelled
--- @include unlease

local RECONNECT_MS = 1000
local passes = redis.call('HMGET', meta, 'lease_ms', 'last_pass', 'gap_at', 'clamp')
local default_lease = tonumber(passes[1] or 30000)
local last_pass, gap_at, clamp = tonumber(passes[2] or 0), tonumber(passes[3] or 0), passes[4]

-- After an outage, a failover or a step of the clock every lease looks expired: let the holders renew first.
if now < last_pass or now > last_pass + 3 * beat then
  gap_at = now
  clamp = now < last_pass and '1' or clamp
end

local function grace(lease_ms)
  return math.max(0, gap_at + math.ceil(lease_ms / 3) + RECONNECT_MS - now)
end

-- A clock that stepped back leaves deadlines that are further away than a lease is long.
local clamped = {}
if clamp == '1' then
  local latest = redis.call('ZREVRANGE', active, 0, limit - 1, 'WITHSCORES')
  for i = 1, #latest, 2 do
    local row = read_row(base .. 'job:' .. latest[i])
    if row and tonumber(latest[i + 1]) > now + row.lease_ms then
      clamped[#clamped + 1], clamped[#clamped + 2] = now + row.lease_ms, latest[i]
    end
  end
  if #clamped < 2 * limit then clamp = '0' end
end

-- A lease that ends within its grace lasts until the end of that, so that no crowd of long ones hides a short one.
local expired, rows, reasons, prolonged = {}, {}, {}, {}
local overdue = redis.call('ZRANGEBYSCORE', active, '-inf', now, 'LIMIT', 0, limit)
for _, id in ipairs(overdue) do
  local row, why = read_row(base .. 'job:' .. id)
  local lease_ms = row and row.lease_ms or default_lease
  if grace(lease_ms) > 0 then
    prolonged[#prolonged + 1], prolonged[#prolonged + 2] = now + math.min(grace(lease_ms), lease_ms), id
  else
    local n = #expired + 1
    expired[n], rows[n], reasons[n] = id, row, why
    if row then redis.call('EXISTS', base .. 'hand:' .. row.holder, lane_key(row.lane)) end
  end
end
redis.call('EXISTS', suspect, dead)

redis.call('HSET', meta, 'last_pass', now, 'gap_at', gap_at, 'clamp', clamp or '0')
if #clamped > 0 then redis.call('ZADD', active, unpack(clamped)) end
if #prolonged > 0 then redis.call('ZADD', active, unpack(prolonged)) end

local taken = { stalled = {}, died = {}, unstarted = {} }
for n, id in ipairs(expired) do
  local row, became = rows[n], 'unstarted'
  if reasons[n] == 'newer' then
    -- Whoever can read the row of a newer release takes it back.
    redis.call('ZADD', active, now + default_lease, id)
  elseif not row or row.state ~= 'a' then
    redis.call('ZREM', active, id)
    lose(id, row and row.state or reasons[n])
  else
    if has(row, STARTED) then
      became = stall(id, row)
    else
      hand_back(id, row, 'unstarted')
    end
    table.insert(taken[became], id)
  end
end

if #taken.stalled + #taken.unstarted > 0 or flow and #taken.died > 0 then wake_one() end
return {
  #overdue == limit and 1 or 0, grace(default_lease), taken.stalled, taken.died, taken.unstarted,
  redis.call('ZCARD', suspect), redis.call('ZCARD', dead),
}
