-- The row of a job that nobody has claimed. Needs the fragment `layout`.
local function new_row(priority, max_stalled, lease_ms, enqueued_at, lane, extras, body, state, flags, order)
  if extras ~= '' then
    flags = bit.bor(flags, EXTRAS)
    body = struct.pack('<H', #extras) .. extras .. body
  end
  return struct.pack(IS, ROW_VERSION, priority, max_stalled, lease_ms, #body, enqueued_at, #lane) .. lane .. body
    .. struct.pack(STANDS, state, flags, order)
end
