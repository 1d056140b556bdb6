"""The law of the keyspace: every job is in exactly one place. Checked after each test that touches a server."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import redis

from echomq_django.bus.row import Done, Row, State, alias_of, parse

# One script reads everything, so the picture is of one instant even while workers run.
_READ_ALL = """
local function content(key, kind)
  if kind == 'zset' then return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  if kind == 'string' then return redis.call('GET', key) end
  if kind == 'set' then return redis.call('SMEMBERS', key) end
  if kind == 'hash' then return redis.call('HGETALL', key) end
  if kind == 'list' then return redis.call('LRANGE', key, 0, -1) end
  return redis.call('XRANGE', key, '-', '+')
end
local time, stored = redis.call('TIME'), {}
for n, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  stored[n] = { key, kind, redis.call('PTTL', key), content(key, kind) }
end
return { time[1] * 1000 + math.floor(time[2] / 1000), stored }
"""

TYPES = {
    "pending": "zset",
    "lanes": "zset",
    "held": "zset",
    "active": "zset",
    "scheduled": "zset",
    "suspect": "zset",
    "isolated": "zset",
    "dead": "zset",
    "settled": "zset",
    "meta": "hash",
    "slots": "hash",
    "limits": "hash",
    "events": "stream",
    "wake": "list",
    "handoff": "list",
}
_ISOLATED = re.compile(r"g:(.*):isolated")
_LANE, _JOB, _HAND = re.compile(r"g:(.+):pending"), re.compile(r"job:(.+)"), re.compile(r"hand:(.+)")
_RUNNING, _LOCK, _GROUP = re.compile(r"g:(.*):running"), re.compile(r"unique:(.+)"), re.compile(r"group:(.+)")
_SHAPES = {
    _LANE: "zset",
    _ISOLATED: "zset",
    _HAND: "set",
    _RUNNING: "set",
    _GROUP: "set",
    _LOCK: "string",
    re.compile(r"progress:(.+)"): "string",
    re.compile(r"log:(.+)"): "list",
}
_FOR_EVER = (_LANE, _ISOLATED, _HAND, _RUNNING)
_LONGEST_TTL_MS = 30 * 86_400_000  # of a lock that is meant to outlive its job
_PLACES = {State.SCHEDULED: "scheduled", State.ACTIVE: "active", State.SUSPECT: "suspect", State.DEAD: "dead"}


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of one key: its type, milliseconds to live (-1: for ever), and the value as Python has it."""

    kind: str
    ttl_ms: int
    value: Any


def check(client: redis.Redis, prefix: str) -> None:
    """Raise `AssertionError` with one line for each job or key below `prefix` that breaks the law."""
    now, queues = read_all(client, prefix)
    problems = [f"{queue}: {one}" for queue, keys in queues.items() for one in _Queue(now, keys).problems()]
    if problems:
        raise AssertionError("\n".join(["the keyspace is not sound:", *sorted(problems)]))


def read_all(client: redis.Redis, prefix: str) -> tuple[int, dict[str, dict[str, Stored]]]:
    """Return the server's milliseconds and each queue's keys (without their common beginning) at one instant."""
    escaped = re.sub(r"([\\\[\]*?^-])", r"\\\1", prefix)
    now, stored = cast("list[Any]", client.eval(_READ_ALL, 0, f"{escaped}:{{*}}:*"))
    queues: dict[str, dict[str, Stored]] = defaultdict(dict)
    for key, kind, ttl_ms, value in stored:
        queue, _, name = key.decode().removeprefix(prefix + ":{").partition("}:")
        queues[queue][name] = Stored(kind.decode(), ttl_ms, _in_python(kind, value))
    return now, queues


def _in_python(kind: bytes, value: Any) -> Any:
    match kind:
        case b"zset":
            return {value[i].decode(): float(value[i + 1]) for i in range(0, len(value), 2)}
        case b"set":
            return {member.decode() for member in value}
        case b"hash":
            return {value[i].decode(): value[i + 1].decode() for i in range(0, len(value), 2)}
        case b"stream":
            return [{f[i].decode(): f[i + 1].decode(errors="replace") for i in range(0, len(f), 2)} for _, f in value]
        case _:
            return value


class _Queue:
    """All keys of one queue, and what is wrong with them."""

    def __init__(self, now: int, keys: dict[str, Stored]) -> None:
        self.now, self.keys = now, keys
        self.lanes = {found[1]: self._zset(name) for name in keys if (found := _LANE.fullmatch(name))}
        if "pending" in keys:
            self.lanes[""] = self._zset("pending")
        self.isolated = {found[1] for name in keys if (found := _ISOLATED.fullmatch(name))}
        self.places: dict[str, list[str]] = defaultdict(list)
        for place in [*map(_lane, self.lanes), *map(_isolated, self.isolated), *_PLACES.values()]:
            for job_id in self._zset(place):
                self.places[job_id].append(place)
        self.rows: dict[str, Row | Done] = {}
        self.aliases: dict[str, str] = {}
        self.unreadable: dict[str, str] = {}
        for name in keys:
            if found := _JOB.fullmatch(name):
                self._read(found[1], keys[name])

    def _zset(self, name: str) -> dict[str, float]:
        stored = self.keys.get(name)
        return stored.value if stored and stored.kind == "zset" else {}

    def _hash(self, name: str) -> dict[str, str]:
        stored = self.keys.get(name)
        return stored.value if stored and stored.kind == "hash" else {}

    def _named(self, shape: re.Pattern[str]) -> Iterator[tuple[str, Any]]:
        """The keys of a shape, each by what its name says, with its value."""
        for name, stored in self.keys.items():
            if (found := shape.fullmatch(name)) and stored.kind == _SHAPES[shape]:
                yield found[1], stored.value

    def _read(self, job_id: str, stored: Stored) -> None:
        if stored.kind != "string":
            self.unreadable[job_id] = f"it is a {stored.kind}"
            return
        if winner := alias_of(stored.value):
            self.aliases[job_id] = winner
            return
        try:
            self.rows[job_id] = parse(job_id, stored.value)
        except ValueError as error:
            self.unreadable[job_id] = str(error)

    def problems(self) -> Iterator[str]:
        yield from self._types()
        yield from self._rows()
        yield from self._hands()
        yield from self._ring()
        yield from self._running()
        yield from self._locks()
        yield from self._waiting()

    def _types(self) -> Iterator[str]:
        for name, stored in self.keys.items():
            shape = next((shape for shape in _SHAPES if shape.fullmatch(name)), None)
            kind = _SHAPES[shape] if shape else TYPES.get(name, stored.kind)
            if kind != stored.kind:
                yield f"{name} is a {stored.kind}, not a {kind}"
            if name not in TYPES and not shape and not _JOB.fullmatch(name):
                yield f"{name} is no key of a queue"
            if stored.ttl_ms >= 0 and (name in TYPES or shape in _FOR_EVER):
                yield f"{name} will expire in {stored.ttl_ms} ms"
            if stored.ttl_ms < 0 and shape and shape not in _FOR_EVER:
                yield f"{name} would stay for ever"
        if "wake" in self.keys and len(self.keys["wake"].value) > 1:
            yield f"wake holds {len(self.keys['wake'].value)} wake-ups, not one"

    def _rows(self) -> Iterator[str]:
        for job_id, why in self.unreadable.items():
            yield f"{job_id} has a row that can't be read: {why}"
        for job_id in self.places.keys() - self.rows.keys() - self.aliases.keys() - self.unreadable.keys():
            yield f"{job_id} is in {' and '.join(self.places[job_id])} but has no row"
        for job_id in self.aliases:
            yield from _lean(job_id, "an alias", self.places.get(job_id, []), self.keys[f"job:{job_id}"].ttl_ms)
        for job_id, row in self.rows.items():
            places, ttl_ms = self.places.get(job_id, []), self.keys[f"job:{job_id}"].ttl_ms
            if isinstance(row, Done):
                yield from _lean(job_id, "done", places, ttl_ms)
            else:
                yield from self._live(row, places, ttl_ms)

    def _live(self, row: Row, places: list[str], ttl_ms: int) -> Iterator[str]:
        line = _isolated if row.extras.get("isolate") else _lane
        place = line(row.lane) if row.state is State.PENDING else _PLACES.get(row.state, "no place")
        if places != [place]:
            found = " and ".join(places) or "none"
            yield f"{row.job_id} is {row.state.name} and belongs in {place}, but is in {found}"
        if ttl_ms >= 0:
            yield f"{row.job_id} is {row.state.name} and would vanish in {ttl_ms} ms"
        if row.order >> 43 != 100 - row.priority:
            yield f"{row.job_id} has priority {row.priority}, which its order {row.order} does not show"
        score = self._zset(place).get(row.job_id, row.order)
        if row.state in (State.PENDING, State.SUSPECT) and score != row.order:
            yield f"{row.job_id} has the order {row.order}, and in {place} the score {score:.0f}"
        if row.started and row.state is not State.ACTIVE:
            yield f"{row.job_id} is {row.state.name} and says that it has started"
        if row.state is State.ACTIVE:
            yield from self._leased(row)

    def _leased(self, row: Row) -> Iterator[str]:
        deadline = self._zset("active").get(row.job_id, 1)
        if not 0 < deadline <= self.now + row.lease_ms:
            yield f"{row.job_id} has a lease of {row.lease_ms} ms that ends in {deadline - self.now:.0f} ms"
        if not (row.holder and row.attempts and row.token.fence and any(row.token.nonce)):
            yield f"{row.job_id} is active without a holder, an attempt or a token"

    def _hands(self) -> Iterator[str]:
        held: dict[str, set[str]] = defaultdict(set)
        for row in self.rows.values():
            if isinstance(row, Row) and row.state is State.ACTIVE:
                held[row.holder].add(row.job_id)
        hands = {
            found[1]: stored.value
            for name, stored in self.keys.items()
            if stored.kind == "set" and (found := _HAND.fullmatch(name))
        }
        for holder in held.keys() | hands.keys():
            for job_id in hands.get(holder, set()) - held[holder]:
                yield f"{job_id} is in the hand of {holder}, and no active row says so"
            for job_id in held[holder] - hands.get(holder, set()):
                yield f"{job_id} is held by {holder}, whose hand lacks it"

    def _ring(self) -> Iterator[str]:
        ring, held, limits = self._zset("lanes"), self._zset("held"), self._hash("limits")
        for lane in (ring | held).keys() - self.lanes.keys():
            yield f"lane {lane!r} has a turn and no jobs"
        for lane in self.lanes.keys() - ring.keys() - held.keys():
            yield f"lane {lane!r} has {len(self.lanes[lane])} jobs and no turn: {', '.join(list(self.lanes[lane])[:3])}"
        for lane in ring.keys() & held.keys():
            yield f"lane {lane!r} has a turn and is held"
        for lane in self._zset("isolated").keys() ^ self.isolated:
            yield f"lane {lane!r} has isolated jobs and no turn, or the other way round"
        for lane in ring:
            if f"paused:{lane}" in limits:
                yield f"lane {lane!r} has a turn and is paused"
        if bool(limits) != ("flow" in self._hash("meta")):
            yield f"meta {'lacks' if limits else 'has'} flow, with {len(limits)} limits"
        for field in limits:
            if field.startswith("bucket:") and field.replace("bucket", "rate", 1) not in limits:
                yield f"limits has {field} and no rate for it"

    def _running(self) -> Iterator[str]:
        for lane, ids in self._named(_RUNNING):
            if f"concurrency:{lane}" not in self._hash("limits"):
                yield f"lane {lane!r} counts what runs and has no limit"
            for job_id in ids:
                row = self.rows.get(job_id)
                if not (isinstance(row, Row) and row.state is State.ACTIVE and row.lane == lane):
                    yield f"{job_id} counts as running in lane {lane!r}, and is not active there"

    def _locks(self) -> Iterator[str]:
        for key, holder in self._named(_LOCK):
            row = self.rows.get(holder.decode())
            lives = isinstance(row, Row) and row.state is not State.DEAD
            if not lives and self.keys[f"unique:{key}"].ttl_ms > _LONGEST_TTL_MS:
                yield f"unique:{key} is held by {holder.decode()}, which does not live"

    def _waiting(self) -> Iterator[str]:
        over = {group_id: len(members) for group_id, members in self._named(_GROUP)}
        for job_id, due in self._zset("scheduled").items():
            if due != math.inf:
                continue
            row = self.rows.get(job_id)
            after = row.extras.get("after") if isinstance(row, Row) else None
            if not after:
                yield f"{job_id} is scheduled for no time and waits for no group"
            elif not after.get("far") and over.get(after["group"], 0) >= after["size"]:
                yield f"{job_id} still waits for a group that is over"


def _lean(job_id: str, what: str, places: list[str], ttl_ms: int) -> Iterator[str]:
    """What is wrong with the string that stays of a job which is not live."""
    if places:
        yield f"{job_id} is {what}, and still in {' and '.join(places)}"
    if ttl_ms < 0:
        yield f"{job_id} is {what} and would stay for ever"


def _isolated(lane: str) -> str:
    return f"g:{lane}:isolated"


def _lane(lane: str) -> str:
    return f"g:{lane}:pending" if lane else "pending"
