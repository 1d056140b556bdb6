-- What holds for the whole queue: `flow` is set while it or a lane has a limit, a weight or a pause. Needs `meta`.
local PROTOCOL = '1'
local known = redis.call('HMGET', meta, 'protocol', 'flow', 'paused')
local protocol, flow, paused = known[1], known[2], known[3]
