-- Enqueues the successor of a job in a chain. A parcel is one job as text: queue NUL id NUL lane NUL priority NUL delay NUL
-- max_stalled NUL lease NUL flags NUL extras NUL body. Needs `base`, `handoff` and the fragment `add`. What belongs to
-- another queue waits in `handoff`. Returns whether the successor can run now.
local function follow(parcel)
  local fields, at = {}, 1
  for n = 1, 9 do
    local nul = string.find(parcel, '\0', at, true)
    fields[n], at = string.sub(parcel, at, nul - 1), nul + 1
  end
  fields[10] = string.sub(parcel, at)
  if base ~= string.match(base, '^(.*){') .. '{' .. fields[1] .. '}:' then
    redis.call('RPUSH', handoff, parcel)
    return false
  end
  local key = base .. 'job:' .. fields[2]
  return redis.call('EXISTS', key) == 0 and add(key, unpack(fields, 2, 10))
end
