#!lua flags=allow-oom
-- forget: Drops deaths that the database has committed, each only if it is still that death.
-- KEYS[1] dead   ZSET    id -> time of death in ms
-- KEYS[2+] row   STRING  one a job
-- ARGV[1+] two a job: id, death key
-- Returns {1 | 0, ...}: 0 = that death is gone already. Of a row that can't be read the database has the bytes
local dead = KEYS[1]
--- @include layout
--- @include row
--- @include death_key

local forgotten, ids = {}, {}
for n = 1, #KEYS - 1 do
  local row, why = read_row(KEYS[n + 1])
  local same = row and row.state == 'd' and death_key(row) == ARGV[2 * n]
  forgotten[n] = (same or why == 'corrupt') and 1 or 0
  -- An id whose row is lost or lives elsewhere would be read again and again; a newer release's row is its own business.
  local stays = why == 'newer' or row and row.state == 'd' and not same
  if not stays then ids[#ids + 1] = ARGV[2 * n - 1] end
end

if #ids > 0 then redis.call('ZREM', dead, unpack(ids)) end
for n, one in ipairs(forgotten) do
  if one == 1 then redis.call('DEL', KEYS[n + 1]) end
end
return forgotten
