-- Another major version of the scripts lays rows out differently: refuse before anything is touched. Scripts that end a
-- lease do not ask: what was claimed under the old rules may end by them. Needs the fragment `meta`.
if protocol and protocol ~= PROTOCOL then
  return redis.error_reply('EMQPROTOCOL this queue speaks protocol ' .. protocol .. ', these scripts ' .. PROTOCOL)
end
