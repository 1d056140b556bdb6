#!lua flags=allow-oom
-- recover: Takes back expired leases: a stall for a job that had started, none for one that had not.
-- KEYS[1] active   ZSET    id -> lease deadline in ms
-- KEYS[2] pending  ZSET    id -> order
-- KEYS[3] lanes    ZSET    lane -> turn
-- KEYS[4] held     ZSET    lane -> when it may be served again
-- KEYS[5] limits   HASH    of the queue and its lanes
-- KEYS[6] suspect  ZSET    id -> order
-- KEYS[7] isolated ZSET    lane -> turn
-- KEYS[8] dead     ZSET    id -> time of death in ms
-- KEYS[9] meta     HASH    protocol, flow, paused, lease_ms, last_pass, gap_at, clamp
-- KEYS[10] wake    LIST    at most one token
-- KEYS[11] events  STREAM  off the happy path
-- KEYS[12] scheduled  ZSET  id -> due in ms
-- KEYS[13] handoff    LIST  errands for other queues
-- ARGV[1] base     prefix of the queue's keys
-- ARGV[2] beat     ms between two passes over leases
-- ARGV[3] limit    leases at most
-- Returns {again (1: the limit was reached), grace left in ms for the default lease, {stalled id, ...}, {died id, ...},
--   {id that had not started, ...}, deaths to be mirrored, errands, leases, ms until `promote` has something to do or
--   to tell (-1: nothing is known)}
local active, pending, lanes, held, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local suspect, isolated, dead, meta, wake, events = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local scheduled, handoff = KEYS[12], KEYS[13]
local base, beat, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include clock
--- @include meta
--- @include protocol
--- @include layout
--- @include row
--- @include extras
--- @include lanes
--- @include line
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
-- Passes over a queue without leases may be further apart and then look like an outage. That takes nothing from anybody:
-- what is held now was claimed since the last pass, and its grace ends before such a lease does.
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
    if row then
      redis.call('EXISTS', base .. 'hand:' .. row.holder)
      read_line(row.extras, row.lane)
    end
  end
end
if #expired > 0 then redis.call('EXISTS', suspect, dead) end

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

-- Also in place of a wake-up that was lost; a job that stalled may be a suspect, which waits in no lane.
if #taken.stalled > 0 or not paused and redis.call('EXISTS', lanes, isolated) > 0 then wake_one() end
-- Only `promote` knows when a limit lets a lane go on, and what may run alone: while there is any of it each pass asks.
local ask = flow or redis.call('EXISTS', suspect, isolated) > 0
local next_ms = ask and now or tonumber(redis.call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2] or 'inf')
return {
  #overdue == limit and 1 or 0, grace(default_lease), taken.stalled, taken.died, taken.unstarted,
  redis.call('ZCARD', dead), redis.call('LLEN', handoff), redis.call('ZCARD', active),
  next_ms < 1 / 0 and math.max(0, next_ms - now) or -1,
}
