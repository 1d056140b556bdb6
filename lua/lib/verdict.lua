-- What the end of one lease is told, 1 | 0 | -1, and the row if its token holds. An end that is said again finds the job in
-- one of the states `after`. Needs the fragments `row`, `token`, `done`.
local function verdict_of(key, fence, nonce, after)
  local row, why, raw = read_row(key)
  if holds(row, fence, nonce) then return 1, row end
  if row then
    return string.find(after, row.state, 1, true) and same_token(row, fence, nonce) and 1 or 0
  end
  if why == 'done' then return ended_as(raw, after, fence) and 1 or 0 end
  return why == 'missing' and -1 or 0
end
