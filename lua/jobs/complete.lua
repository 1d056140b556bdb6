#!lua flags=allow-oom
-- complete: Ends jobs whose token still holds; the payload goes, one lean string stays for a while.
-- KEYS[1] active    ZSET    id -> lease deadline in ms
-- KEYS[2] hand      SET     ids that the holder has
-- KEYS[3+] row      STRING  one a job
-- ARGV[1+] five a job: id, fence, nonce, time to live (ms, 0 = keep nothing), result (task NUL holder NUL value)
-- Returns {1 | 0 | -1, ...}: accepted (also when said again), stale token, no such job
local active, hand = KEYS[1], KEYS[2]
--- @include clock
--- @include layout
--- @include row
--- @include token

local verdicts, ended, rows = {}, {}, {}
for n = 1, #KEYS - 2 do
  local id, fence, nonce = ARGV[5 * n - 4], ARGV[5 * n - 3], ARGV[5 * n - 2]
  local row, why, raw = read_row(KEYS[n + 2])
  if holds(row, fence, nonce) then
    verdicts[n], ended[#ended + 1], rows[n] = 1, id, row
  elseif why == 'done' then
    verdicts[n] = struct.unpack('<d', raw, 3) == tonumber(fence) and 1 or 0
  else
    verdicts[n] = why == 'missing' and -1 or 0
  end
end
if #ended == 0 then return verdicts end

redis.call('ZREM', active, unpack(ended))
redis.call('SREM', hand, unpack(ended))
for n, row in pairs(rows) do
  local ttl, result = tonumber(ARGV[5 * n - 1]), ARGV[5 * n]
  if ttl > 0 then
    local waited, ran = row.claimed_at - row.enqueued_at, now - row.claimed_at
    redis.call('SET', row.key, struct.pack(DONE, DONE_VERSION, 'c', row.fence, row.enqueued_at, waited, ran,
      math.min(row.attempts, 65535)) .. result, 'PX', ttl)
  else
    redis.call('DEL', row.key)
  end
end
return verdicts
