-- Counts the members of a group that are over, by id, so that each counts once; the last one lets the job after the group
-- go. Needs `now` and `base`; only the row tells that a job is in a group, so the keys are not declared. Returns whether
-- the job after the group can run now.
local WAIT_SECONDS, OVER_SECONDS = 90 * 86400, 86400 -- a dead member may be requeued late

local function leave_group(group, id)
  if not group then return false end
  local key, scheduled_key = base .. 'group:' .. group.id, base .. 'scheduled'
  redis.call('SADD', key, id)
  local open = redis.call('SCARD', key) < group.size
  redis.call('EXPIRE', key, open and WAIT_SECONDS or OVER_SECONDS)
  if open or not group.after then return false end
  if group.queue then
    redis.call('RPUSH', base .. 'handoff', group.queue .. '\0' .. group.after)
    return false
  end
  if redis.call('ZSCORE', scheduled_key, group.after) ~= 'inf' then return false end
  redis.call('ZADD', scheduled_key, now, group.after)
  return true
end
