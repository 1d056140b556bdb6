-- What few jobs have and the server must know: expiry, uniqueness, group. It stands in front of the body, behind its
-- length. Needs the fragment `row`.
local function extras_of(row)
  return row.extras or {}
end

local function body_of(row)
  local at = IS_SIZE + #row.lane
  if has(row, EXTRAS) then at = at + 2 + struct.unpack('<H', row.raw, at + 1) end
  return string.sub(row.raw, at + 1, row.at)
end
