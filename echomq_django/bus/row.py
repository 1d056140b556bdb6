"""The rows of the server in Python: a live job, and the lean string that stays of a finished one.

The layout is `lua/lib/row.lua`'s; `docs/explanation/job-row` tells why it looks like this.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

_IS, _STANDS, _LIFE = Struct("<BBHIIdB"), Struct("<cBd"), Struct("<IHHHdd8s40s")
_DONE, _SIZE = Struct("<BcddffH"), Struct("<H")
_ROW_VERSION, _DONE_VERSION, _ALIAS_VERSION = 1, 129, 130
_STARTED, _VIA_OUTBOX, _CANCELLED, _EXTRAS = 1, 2, 4, 8
_UNBOUNDED = 65535
_NO_NONCE = bytes(8)


class State(StrEnum):
    """Where a job is; the value is the letter in its row."""

    SCHEDULED = "s"
    PENDING = "p"
    ACTIVE = "a"
    SUSPECT = "u"
    DEAD = "d"
    COMPLETED = "c"
    CANCELLED = "x"


class Token(NamedTuple):
    """The proof of holding one lease of one job."""

    fence: int
    nonce: bytes

    def __str__(self) -> str:
        return f"{self.fence}:{self.nonce.hex()}"


_NO_TOKEN = Token(0, _NO_NONCE)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed, died or can't start; the texts never hold a NUL. `since` (server ms) is 0 for an instant."""

    reason: str
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    since: int = 0

    def pack(self) -> bytes:
        """Return the bytes that stand behind a row."""
        since = (str(self.since),) if self.since else ()
        parts = (self.reason, self.error_class, self.message, self.traceback, *since)
        return b"\0".join(part.encode(errors="backslashreplace").replace(b"\0", b"\\x00") for part in parts)

    @classmethod
    def unpack(cls, error: bytes) -> "Failure":
        """Return the failure in `error`; parts that are not there come back empty."""
        parts = [part.decode(errors="replace") for part in error.split(b"\0", 3)]
        reason, error_class, message, rest = parts + [""] * (4 - len(parts))
        traceback, nul, since = rest.rpartition("\0")
        if nul and since.isdecimal():
            return cls(reason, error_class, message, traceback, int(since))
        return cls(reason, error_class, message, rest)


_LIVE = {state.encode(): state for state in (State.SCHEDULED, State.PENDING, State.ACTIVE, State.SUSPECT, State.DEAD)}


@dataclass(slots=True)
class Row:
    """A live job as the server keeps it. Instants are server milliseconds."""

    job_id: str
    state: State
    lane: str
    priority: int
    max_stalled: int | None
    lease_ms: int
    enqueued_at: int
    order: int
    body: bytes
    started: bool = False
    via_outbox: bool = False
    cancelled: bool = False
    extras: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    failures: int = 0
    stalled: int = 0
    deaths: int = 0
    claimed_at: int = 0
    token: Token = _NO_TOKEN
    holder: str = ""
    failure: Failure | None = None

    @property
    def ready_at(self) -> int:
        """The server millisecond at which the job may run."""
        return self.order & (1 << 43) - 1


@dataclass(frozen=True, slots=True)
class Done:
    """What stays of a job that ended until it expires. Instants are server milliseconds; `value` is JSON."""

    job_id: str
    task: str
    holder: str
    value: bytes
    attempts: int
    fence: int
    enqueued_at: int
    started_at: int
    finished_at: int
    state: State = State.COMPLETED

    @staticmethod
    def pack_result(task: str, holder: str, value: bytes) -> bytes:
        """Return the bytes that the script puts behind its own part."""
        return b"\0".join((task.encode(), holder.encode(), value))


def alias_of(raw: bytes) -> str | None:
    """Return the id of the job that a row stands for, if it is only an alias: a job that was merged into another."""
    return raw[1:].decode() if raw[:1] == bytes([_ALIAS_VERSION]) else None


def parse(job_id: str, raw: bytes) -> Row | Done:
    """Return what `raw` holds; raises `ValueError` if it is no row of a version known here, or damaged."""
    if raw[:1] not in (bytes([_ROW_VERSION]), bytes([_DONE_VERSION])):
        raise ValueError(f"the row of {job_id} has an unknown format (first byte {raw[:1].hex() or 'missing'})")
    try:
        return _parse_row(job_id, raw) if raw[0] == _ROW_VERSION else _parse_done(job_id, raw)
    except (StructError, ValueError, OverflowError) as problem:
        raise ValueError(f"the row of {job_id} is damaged: {problem}") from problem


def _parse_row(job_id: str, raw: bytes) -> Row:
    _, priority, max_stalled, lease_ms, size, enqueued_at, lane_size = _IS.unpack_from(raw)
    at = _IS.size + lane_size
    state, flags, order = _STANDS.unpack_from(raw, at + size)
    if state not in _LIVE:
        raise ValueError(f"no live job is in the state {state!r}")
    row = Row(
        job_id=job_id,
        state=_LIVE[state],
        lane=raw[_IS.size : at].decode(errors="backslashreplace"),
        priority=priority - 100,
        max_stalled=unpack_max_stalled(max_stalled),
        lease_ms=lease_ms,
        enqueued_at=int(enqueued_at),
        order=int(order),
        body=raw[at : at + size],
        started=bool(flags & _STARTED),
        via_outbox=bool(flags & _VIA_OUTBOX),
        cancelled=bool(flags & _CANCELLED),
    )
    if flags & _EXTRAS:
        end = _SIZE.size + _SIZE.unpack_from(row.body)[0]
        if end > len(row.body):
            raise ValueError("its extras are longer than its body")
        row.extras, row.body = json.loads(row.body[_SIZE.size : end]), row.body[end:]
    at += size + _STANDS.size
    if len(raw) >= at + _LIFE.size:
        row.attempts, row.failures, row.stalled, row.deaths, *lease = _LIFE.unpack_from(raw, at)
        fence, claimed_at, nonce, holder = lease
        row.claimed_at, row.token, row.holder = int(claimed_at), Token(int(fence), nonce), holder.decode().rstrip()
        row.failure = Failure.unpack(raw[at + _LIFE.size :]) if len(raw) > at + _LIFE.size else None
    return row


def _parse_done(job_id: str, raw: bytes) -> Done:
    _, state, fence, enqueued_at, waited, ran, attempts = _DONE.unpack_from(raw)
    task, holder, value = raw[_DONE.size :].split(b"\0", 2)
    started_at = int(enqueued_at + waited)
    instants = (int(enqueued_at), started_at, started_at + int(ran))
    facts = (task.decode(), holder.decode(), value, attempts, int(fence))
    return Done(job_id, *facts, *instants, State(state.decode()))


def pack_max_stalled(max_stalled: int | None) -> int:
    """Return how the server writes a bound on stalls."""
    return _UNBOUNDED if max_stalled is None else max_stalled


def unpack_max_stalled(number: int) -> int | None:
    """Return the bound on stalls that the server writes as `number`."""
    return None if number == _UNBOUNDED else number
