-- The row of a job that nobody has claimed. Needs the fragment `layout`.
local function new_row(priority, max_stalled, lease_ms, enqueued_at, lane, body, state, flags, order)
  return struct.pack(IS, ROW_VERSION, priority, max_stalled, lease_ms, #body, enqueued_at, #lane) .. lane .. body
    .. struct.pack(STANDS, state, flags, order)
end
