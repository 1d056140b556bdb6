-- Takes leave of what a claim finds in a line and can't start, {id, why} each and {id, row} each that came too late. A row of
-- a newer release waits for a worker that can read it; anything else unreadable has no job behind it. Needs `now`,
-- `scheduled` and the fragments `event`, `lost`, `expire`.
local function put_aside(unreadable, late)
  for _, pair in ipairs(unreadable) do
    local id, why = pair[1], pair[2]
    if why == 'newer' then
      redis.call('ZADD', scheduled, now + 30000, id)
      event('released', id, 0, why)
    else
      lose(id, why)
    end
  end
  for _, pair in ipairs(late) do
    expire(pair[1], pair[2])
  end
end
