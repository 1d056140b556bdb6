#!lua flags=allow-oom
-- abandon: Takes back at once what a dead holder had. One started job is charged; of several, each becomes a suspect.
-- KEYS[1] active   ZSET    id -> lease deadline in ms
-- KEYS[2] hand     SET     ids that the holder had
-- KEYS[3] pending  ZSET    id -> order
-- KEYS[4] lanes    ZSET    lane -> turn
-- KEYS[5] held     ZSET    lane -> when it may be served again
-- KEYS[6] limits   HASH    of the queue and its lanes
-- KEYS[7] suspect  ZSET    id -> order
-- KEYS[8] dead     ZSET    id -> time of death in ms
-- KEYS[9] meta     HASH    protocol, flow
-- KEYS[10] wake    LIST    at most one token
-- KEYS[11] events  STREAM  off the happy path
-- ARGV[1] base     prefix of the queue's keys
-- ARGV[2] holder   1 to 40 characters
-- ARGV[3] shared  1: it was running jobs of other queues too
-- ARGV[4+] two a job that it was running: id, fence
-- Returns {{stalled id, ...}, {died id, ...}, {suspect id, ...}, {id that had not started, ...}}
local active, hand, pending, lanes, held, limits = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local suspect, dead, meta, wake, events = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local base, holder = ARGV[1], ARGV[2]
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
--- @include let_go
--- @include group
--- @include done
--- @include cancelled
--- @include unlease

-- A job may run twice here, under a lease that was lost and under its present one.
local running = {}
for i = 4, #ARGV, 2 do
  running[ARGV[i]] = math.max(running[ARGV[i]] or 0, tonumber(ARGV[i + 1]))
end

local ids, rows, started = {}, {}, tonumber(ARGV[3])
for _, id in ipairs(redis.call('SMEMBERS', hand)) do
  local row = read_row(base .. 'job:' .. id)
  if row and row.state == 'a' and row.holder == holder then
    ids[#ids + 1], rows[#rows + 1] = id, row
    if running[id] == row.fence then started = started + 1 end
    read_line(row.extras, row.lane)
  end
end
redis.call('EXISTS', suspect, dead)

local taken = { stalled = {}, died = {}, suspect = {}, unstarted = {} }
for n, id in ipairs(ids) do
  local row, became = rows[n], 'unstarted'
  if running[id] ~= row.fence then
    hand_back(id, row, 'unstarted')
  elseif started == 1 then
    became = stall(id, row)
  else
    became = 'suspect'
    to_suspects(id, row, 'suspected')
  end
  table.insert(taken[became], id)
end
redis.call('DEL', hand)

if #taken.stalled + #taken.suspect + #taken.unstarted > 0 or flow and #taken.died > 0 then wake_one() end
return { taken.stalled, taken.died, taken.suspect, taken.unstarted }
