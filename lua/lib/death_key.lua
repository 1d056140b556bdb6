-- A death is named by the token of the lease that died.
local function death_key(row)
  return string.format('%.0f:', row.fence) .. string.gsub(row.nonce, '.', function(c)
    return string.format('%02x', string.byte(c))
  end)
end
