-- What may be run alone now: a suspect, or else a lane whose isolated jobs come next. Needs `base`, `suspect`, `isolated`,
-- `paused`, `flow` and the fragments `row`, `flow`.
local MOST_SUSPECTS, MOST_LANES = 50, 200

-- Returns 1 or 0, and the bucket of the queue.
local function room_for_one()
  if paused then return 0 end
  if not flow then return 1 end
  return queue_room(1)
end

-- Returns the id and the row of the oldest suspect that may start; collects in `lost` what has no suspect behind it.
local function next_suspect(lost)
  for _, id in ipairs(redis.call('ZRANGE', suspect, 0, MOST_SUSPECTS - 1)) do
    local row, why = read_row(base .. 'job:' .. id)
    if row and row.state == 'u' then
      if not flow or lane_room(row.lane) > 0 then return id, row end
    elseif why ~= 'newer' then -- a row of a newer release waits here for a worker that can read it
      lost[#lost + 1] = { id, why or row.state }
    end
  end
end

local function next_isolated()
  for _, lane in ipairs(redis.call('ZRANGE', isolated, 0, MOST_LANES - 1)) do
    if not flow or lane_room(lane) > 0 then return lane end
  end
end
