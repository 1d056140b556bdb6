#!lua flags=no-writes
-- unmirrored: Reads the oldest deaths that nobody has forgotten yet, all at one instant.
-- KEYS[1] dead   ZSET  id -> time of death in ms
-- ARGV[1] base   prefix of the queue's keys
-- ARGV[2] limit  deaths at most
-- ARGV[3] bytes  of rows after which no other is read
-- Returns {id, time of death in ms, row (false: there is none, '': it can't be read), ...}
local dead, base, limit, most = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
--- @include layout
--- @include row

local deaths, bytes = {}, 0
local oldest = redis.call('ZRANGE', dead, 0, limit - 1, 'WITHSCORES')
for i = 1, #oldest, 2 do
  if bytes > most then break end
  local row, why = read_row(base .. 'job:' .. oldest[i])
  -- A row of a newer release waits for a mirror that can read it.
  if why ~= 'newer' then
    deaths[#deaths + 1], deaths[#deaths + 2] = oldest[i], oldest[i + 1]
    deaths[#deaths + 1] = row and row.raw or why ~= 'missing' and ''
    bytes = bytes + (row and #row.raw or 0)
  end
end
return deaths
