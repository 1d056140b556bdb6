-- Ends a job that was asked to be cancelled instead of giving it another turn. Needs `events`, and the fragments `row`,
-- `extras`, `let_go`, `group`, `done`, `event`. What reads its result has an hour for it.
local function end_cancelled(id, row)
  event('cancelled', id, row.fence, row.holder)
  let_go(row, id)
  leave_group(extras_of(row).group, id)
  write_done(row, 'x', string.match(body_of(row), '^%Z*') .. '\0' .. row.holder .. '\0', 3600000)
end
