-- The one place where a script tells what happened off the happy path. Needs `events`.
local function event(kind, id, fence, detail)
  redis.call('XADD', events, 'MAXLEN', '~', 10000, '*',
    'kind', kind, 'id', id, 'fence', string.format('%.0f', fence), 'detail', detail or '')
end
