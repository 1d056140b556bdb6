-- Wakes one idle worker; it wakes the next if work is left. Needs `wake`.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then redis.call('LPUSH', wake, 1) end
end
