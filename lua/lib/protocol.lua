-- Another major version of the scripts lays rows out differently: refuse before anything is touched. Needs `meta`.
local PROTOCOL = '1'
local protocol = redis.call('HGET', meta, 'protocol')
if protocol and protocol ~= PROTOCOL then
  return redis.error_reply('EMQPROTOCOL this queue speaks protocol ' .. protocol .. ', these scripts ' .. PROTOCOL)
end
