-- A token is fence + nonce: the proof of holding the lease that one claim gave.
local function same_token(row, fence, nonce)
  return row.fence == tonumber(fence) and row.nonce == nonce
end

local function holds(row, fence, nonce)
  return row and row.state == 'a' and same_token(row, fence, nonce)
end
