-- A row is one string: what the job is (never changes), where it stands, and from the first claim on its life.
-- Behind them stands the last error. docs/explanation/job-row tells why.
local IS, STANDS, LIFE, DONE = '<BBHIIdB', '<c1Bd', '<IHHHddc8c40', '<Bc1ddffH'
local IS_SIZE, STANDS_SIZE, LIFE_SIZE = 21, 10, 74
local ROW_VERSION, DONE_VERSION, ALIAS_VERSION, UNBOUNDED = 1, 129, 130, 65535
local STARTED, VIA_OUTBOX, CANCELLED, EXTRAS = 1, 2, 4, 8
local NO_NONCE, NO_HOLDER = string.rep('\0', 8), string.rep(' ', 40)
