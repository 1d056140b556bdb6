-- Takes leave of an id that has no job behind it where it stood. A damaged row goes to the dead, so that the database keeps
-- its bytes before it is forgotten. Needs `now`, `dead` and the fragment `event`.
local function lose(id, why)
  event('lost', id, 0, why)
  if why == 'corrupt' then redis.call('ZADD', dead, now, id) end
end
