-- Priority first, then the time a job became ready; exact in a double.
local function order_of(priority, ready_at)
  return (200 - priority) * 8796093022208 + ready_at
end
