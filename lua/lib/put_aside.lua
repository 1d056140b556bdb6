-- Takes leave of what a claim finds in a line and can't start: a row of a newer release waits for a worker that can read it,
-- anything else has no job behind it. Needs `now`, `scheduled` and the fragments `event`, `lost`.
local function put_aside(id, why)
  if why == 'newer' then
    redis.call('ZADD', scheduled, now + 30000, id)
    event('released', id, 0, why)
  else
    lose(id, why)
  end
end
