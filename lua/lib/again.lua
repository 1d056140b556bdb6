-- What this nonce has claimed already, for a caller that lost the reply. Needs `base`, `hand` and the fragment `row`.
local function claimed_before(nonce)
  local leased = {}
  for _, id in ipairs(redis.call('SMEMBERS', hand)) do
    local row = read_row(base .. 'job:' .. id)
    if row and row.state == 'a' and row.nonce == nonce then
      leased[#leased + 1] = id
      leased[#leased + 1] = string.sub(row.raw, 1, row.at + STANDS_SIZE + LIFE_SIZE)
    end
  end
  return leased
end
