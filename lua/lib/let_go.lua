-- What a job leaves behind when its life ends: the lock of a unique job. Needs `base` and the fragments `row`, `extras`.
local function let_go(row, id)
  local unique = extras_of(row).unique
  if not unique or unique.ms then return end
  local lock = base .. 'unique:' .. unique.key
  if redis.call('GET', lock) == id then redis.call('DEL', lock) end
end
