"""The encodings of a job's row that `tests.bench.rows` compares, as Lua fragments in shared skeletons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import Template
from typing import Final

# The skeletons hold the duties that every encoding shares; $read and $write are the only difference.
SKELETONS: Final = {
    "enqueue": """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local members = {}
for i = 2, #ARGV, $stride do
  local row = ARGV[1] .. 'job:' .. ARGV[i]
  if redis.call('EXISTS', row) == 0 then
    local order = (100 - ARGV[i + 1]) * 2^43 + now
    $write
    members[#members + 1] = order
    members[#members + 1] = ARGV[i]
  end
end
if #members > 0 then redis.call('ZADD', KEYS[1], unpack(members)) end
return #members / 2""",
    "claim": """
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = math.floor(us / 1000)
local count, nonce, holder = ARGV[2], ARGV[3], ARGV[4]
local ids = redis.call('ZRANGE', KEYS[1], 0, count - 1)
local jobs, due, out = {}, {}, {}
for _, id in ipairs(ids) do
  local row, run, job = ARGV[1] .. 'job:' .. id, ARGV[1] .. 'run:' .. id, nil
  $read
  if job then
    job.id, job.row, job.run, job.fence = id, row, run, math.max(job.fence + 1, us)
    jobs[#jobs + 1] = job
  end
end
for i, job in ipairs(jobs) do
  $write
  due[2 * i - 1], due[2 * i] = now + job.lease, job.id
  out[i] = {job.id, string.format('%.0f', job.fence), job.attempts, job.reply}
end
if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end
if #due > 0 then
  redis.call('ZADD', KEYS[2], unpack(due))
  redis.call('SADD', KEYS[3], unpack(ids))
end
return out""",
    "complete": """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local done, ids = {}, {}
for i = 3, #ARGV, 4 do
  local id, token, nonce = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local row, run, task, attempts, enqueued_at = ARGV[1] .. 'job:' .. id, ARGV[1] .. 'run:' .. id, nil, nil, nil
  $read
  if task then
    local lean = struct.pack('<Bc1Idd', 129, 'D', attempts, enqueued_at, now) .. task .. '\\0' .. ARGV[i + 3]
    ids[#ids + 1], done[#done + 1] = id, {row, lean, run}
  end
end
for _, job in ipairs(done) do
  redis.call('SET', job[1], job[2], 'PX', ARGV[2])
  $write
end
if #ids > 0 then
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('SREM', KEYS[2], unpack(ids))
end
return ids""",
    "renew": """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local due, out = {}, {}
for i = 2, #ARGV, 3 do
  local id, token, nonce = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local row, run, lease, flags = ARGV[1] .. 'job:' .. id, ARGV[1] .. 'run:' .. id, nil, nil
  $read
  if lease then
    due[#due + 1], due[#due + 2] = now + lease, id
    out[#out + 1] = {id, flags}
  end
end
if #due > 0 then redis.call('ZADD', KEYS[1], 'XX', unpack(due)) end
return out""",
}


@dataclass(frozen=True)
class Encoding:
    """One way to store a row: what each skeleton does to read and to write it."""

    name: str
    packed: bool
    read: dict[str, str]
    write: dict[str, str]

    def script(self, verb: str) -> str:
        """Return the Lua of one verb in this encoding."""
        stride = 6 if self.packed else 10
        return Template(SKELETONS[verb]).substitute(
            read=self.read.get(verb, ""), write=self.write.get(verb, ""), stride=stride
        )


HASH_CLAIM_READ: Final = """local h = redis.call('HMGET', row, 'attempts', 'fence', 'lease_ms', 'max_stalled',
    'priority', 'enqueued_at', 'lane', 'task', 'alias', 'headers', 'options', 'payload')
  job = h[3] and {attempts = (h[1] or 0) + 1, fence = h[2] or 0, lease = h[3], reply = h}"""
HASH_LIFE: Final = """'state', 'A', 'attempts', job.attempts,
    'fence', string.format('%.0f', job.fence), 'claimed_at', now, 'nonce', nonce, 'holder', holder"""
HASH = Encoding(
    "A hash",
    packed=False,
    read={
        "claim": HASH_CLAIM_READ,
        "complete": """local h = redis.call('HMGET', row, 'state', 'fence', 'nonce', 'task', 'attempts', 'enqueued_at')
  if h[1] == 'A' and h[2] == token and h[3] == nonce then task, attempts, enqueued_at = h[4], h[5], h[6] end""",
        "renew": """local h = redis.call('HMGET', row, 'state', 'fence', 'nonce', 'lease_ms', 'flags')
  if h[1] == 'A' and h[2] == token and h[3] == nonce then lease, flags = h[4], h[5] end""",
    },
    write={
        "enqueue": """local fields = {'v', 1, 'task', ARGV[i + 5], 'payload', ARGV[i + 9], 'priority', ARGV[i + 1],
      'max_stalled', ARGV[i + 2], 'lease_ms', ARGV[i + 3], 'enqueued_at', now, 'state', 'P', 'order', order}
    if ARGV[i + 4] ~= '' then fields[#fields + 1] = 'lane'; fields[#fields + 1] = ARGV[i + 4] end
    if ARGV[i + 6] ~= '' then fields[#fields + 1] = 'alias'; fields[#fields + 1] = ARGV[i + 6] end
    if ARGV[i + 7] ~= '' then fields[#fields + 1] = 'headers'; fields[#fields + 1] = ARGV[i + 7] end
    if ARGV[i + 8] ~= '' then fields[#fields + 1] = 'options'; fields[#fields + 1] = ARGV[i + 8] end
    redis.call('HSET', row, unpack(fields))""",
        "claim": f"redis.call('HSET', job.row, {HASH_LIFE})",
    },
)

PACK_HEAD: Final = """local lane, body = ARGV[i + 4], ARGV[i + 5]
    local head = struct.pack('<BBHIIdBc0', 1, ARGV[i + 1] + 100, ARGV[i + 2], ARGV[i + 3], #body, now, #lane, lane)"""
CONVERTED = Encoding(
    "B string, then hash",
    packed=True,
    read=HASH.read
    | {
        "claim": f"""local raw = redis.pcall('GET', row)
  if type(raw) == 'string' then
    local v, priority, max_stalled, lease, size, enqueued_at, lane, at = struct.unpack('<BBHIIdBc0', raw)
    local order = struct.unpack('<d', raw, at + size)
    local task, alias, headers, options, payload = struct.unpack('ssss', raw, at)
    payload = raw:sub(payload, at + size - 1)
    job = {{attempts = 1, fence = 0, lease = lease, reply = raw, first = {{'v', v, 'task', task, 'alias', alias,
      'headers', headers, 'options', options, 'payload', payload, 'priority', priority - 100, 'lane', lane,
      'max_stalled', max_stalled, 'lease_ms', lease, 'enqueued_at', enqueued_at, 'order', order}}}}
  elseif raw then
    {HASH_CLAIM_READ}
  end""",
    },
    write={
        "enqueue": f"{PACK_HEAD}\n    redis.call('SET', row, head .. body .. struct.pack('<d', order))",
        "claim": f"""if job.first then
    redis.call('DEL', job.row)
    local fields, life = job.first, {{{HASH_LIFE}}}
    for k = 1, #life do fields[#fields + 1] = life[k] end
    redis.call('HSET', job.row, unpack(fields))
  else
    redis.call('HSET', job.row, {HASH_LIFE})
  end""",
    },
)

SPLIT = Encoding(
    "C string + run hash",
    packed=True,
    read={
        "claim": """local raw = redis.call('GET', row)
  if raw then
    local h = redis.call('HMGET', run, 'attempts', 'fence', 'failures', 'stalled')
    local lease = struct.unpack('<I', raw, 5)
    job = {attempts = (h[1] or 0) + 1, fence = h[2] or 0, lease = lease, reply = raw}
  end""",
        "complete": """local h = redis.call('HMGET', run, 'state', 'fence', 'nonce', 'attempts')
  if h[1] == 'A' and h[2] == token and h[3] == nonce then
    local head, lane = redis.call('GETRANGE', row, 0, 511), nil
    attempts, enqueued_at, lane = h[4], struct.unpack('<dB', head, 13)
    task = struct.unpack('s', head, 22 + lane)
  end""",
        "renew": """local h = redis.call('HMGET', run, 'state', 'fence', 'nonce', 'flags')
  if h[1] == 'A' and h[2] == token and h[3] == nonce then
    lease, flags = struct.unpack('<I', redis.call('GETRANGE', row, 4, 7)), h[4]
  end""",
    },
    write={
        "enqueue": CONVERTED.write["enqueue"],
        "claim": f"redis.call('HSET', job.run, {HASH_LIFE})",
        "complete": "redis.call('DEL', job[3])",
    },
)

LIFE: Final = "'<c1BdIHHHddc8c40'"
PACKED = Encoding(
    "D packed string",
    packed=True,
    read={
        "claim": """local raw = redis.call('GET', row)
  if raw then
    local lease, size, _, lane = struct.unpack('<IIdB', raw, 5)
    local at = 22 + lane + size
    local flags, order, pos = struct.unpack('<Bd', raw, at + 1)
    job = {at = at - 1, lease = lease, flags = flags, order = order, attempts = 1, reply = raw,
      failures = 0, stalled = 0, deaths = 0, fence = 0}
    if pos <= #raw then
      job.attempts, job.failures, job.stalled, job.deaths, job.fence = struct.unpack('<IHHHd', raw, pos)
      job.attempts = job.attempts + 1
    end
  end""",
        "complete": """local raw = redis.call('GET', row)
  if raw and #raw > 84 then
    local tail = #raw - 83
    local state, _, _, n, _, _, _, fence, _, nonce_was = struct.unpack('<c1BdIHHHddc8', raw, tail)
    if state == 'A' and fence == tonumber(token) and nonce_was == nonce then
      local lane
      attempts, enqueued_at, lane = n, struct.unpack('<dB', raw, 13)
      task = struct.unpack('s', raw, 22 + lane)
    end
  end""",
        "renew": """local raw = redis.call('GET', row)
  if raw and #raw > 84 then
    local state, mark, _, _, _, _, _, fence, _, nonce_was = struct.unpack('<c1BdIHHHddc8', raw, #raw - 83)
    if state == 'A' and fence == tonumber(token) and nonce_was == nonce then
      lease, flags = struct.unpack('<I', raw, 5), mark
    end
  end""",
    },
    write={
        "enqueue": f"{PACK_HEAD}\n    redis.call('SET', row, head .. body .. struct.pack('<c1Bd', 'P', 0, order))",
        "claim": f"""redis.call('SETRANGE', job.row, job.at, struct.pack({LIFE}, 'A', job.flags, job.order,
    job.attempts, job.failures, job.stalled, job.deaths, job.fence, now, nonce, holder))""",
    },
)
# Offsets count from the head: an error may stand behind the life.
RANGED_TAIL: Final = """local head = redis.call('GETRANGE', row, 0, HEAD)
  local tail = ''
  if #head > 20 then
    local size, _, lane = struct.unpack('<IdB', head, 9)
    local at = 21 + lane + size
    tail = redis.call('GETRANGE', row, at, at + 83)
  end"""
RANGED = Encoding(
    "D' ranges, room if >= 1 kB",
    packed=True,
    read=PACKED.read
    | {
        "complete": RANGED_TAIL.replace("HEAD", "511")
        + """
  if #tail == 84 then
    local state, _, _, n, _, _, _, fence, _, nonce_was = struct.unpack('<c1BdIHHHddc8', tail)
    if state == 'A' and fence == tonumber(token) and nonce_was == nonce then
      local lane
      attempts, enqueued_at, lane = n, struct.unpack('<dB', head, 13)
      task = struct.unpack('s', head, 22 + lane)
    end
  end""",
        "renew": RANGED_TAIL.replace("HEAD", "20")
        + """
  if #tail == 84 then
    local state, mark, _, _, _, _, _, fence, _, nonce_was = struct.unpack('<c1BdIHHHddc8', tail)
    if state == 'A' and fence == tonumber(token) and nonce_was == nonce then
      lease, flags = struct.unpack('<I', head, 5), mark
    end
  end""",
    },
    write=PACKED.write
    | {
        "enqueue": f"""{PACK_HEAD}
    local room = #body >= 1000 and string.rep('\\0', 74) or ''
    redis.call('SET', row, head .. body .. struct.pack('<c1Bd', 'P', 0, order) .. room)""",
    },
)
RESERVED = replace(
    RANGED,
    name="D'' room always",
    write=RANGED.write | {"enqueue": RANGED.write["enqueue"].replace(">= 1000", ">= 0")},
)
ENCODINGS: Final = (HASH, CONVERTED, SPLIT, PACKED, RANGED, RESERVED)
