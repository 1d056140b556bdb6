"""One queue on one server: its keys, and the single place where a script is run and a server's error gets a type."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)

from echomq_django.bus.keyspace import Keyspace
from echomq_django.bus.line import Line
from echomq_django.bus.scripts import Script
from echomq_django.exceptions import BusFull, BusRefused, BusUnavailable, ScriptFailed, UnsupportedServer

_LANES_COUNTED = 1000
_OPEN, _COUNT = Script("queue/open"), Script("queue/count")
_PASSING = (AskError, BusyLoadingError, ClusterDownError, MasterDownError, NoScriptError, ReadOnlyError, TryAgainError)
_UNNAMED = ("BUSY ", "UNBLOCKED", "MISCONF", "NOREPLICAS")  # passing, too, and the client has no class for them


class Queue:
    """A queue's keys together with the client that reaches them; queues of one client may share its `line`."""

    __slots__ = ("client", "keys", "line")

    def __init__(self, client: redis.Redis, prefix: str, name: str, line: Line | None = None) -> None:
        self.client = client
        self.keys = Keyspace(prefix, name)
        self.line = line or Line(client.connection_pool)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.keys.queue

    def run(self, script: Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run `script`, loading it where it is unknown. Raises `BusError`s; never repeats a call that ran."""
        with server_errors(script.name):
            try:
                return self.line.call(script.command(keys, args))
            except NoScriptError:
                self.line.call(("SCRIPT", "LOAD", script.text))  # the pool may lead to another server
                return self.line.call(script.command(keys, args))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs of a queue are where; `next_due_ms` is None when nothing is scheduled.

    `held` of the pending ones are in lanes that a limit or a pause keeps waiting. `paused` is None or who paused the
    queue, when and why. `forgotten_early` counts results that made room for others. `lanes` have pending jobs, the
    oldest of which has been ready for `oldest_ms`. `waiting` of the scheduled ones wait for a group and for no time.
    """

    pending: int
    scheduled: int
    active: int
    suspect: int
    dead: int
    next_due_ms: int | None
    lanes_not_counted: int
    held: int = 0
    paused: dict[str, Any] | None = None
    forgotten_early: int = 0
    lanes: int = 0
    waiting: int = 0
    oldest_ms: int | None = None


def open_queue(queue: Queue, lease_ms: int) -> None:
    """Announce that workers serve `queue`; raises `UnsupportedServer` if another protocol is in use there."""
    queue.run(_OPEN, [queue.keys.meta], [lease_ms])


def count(queue: Queue) -> Counts:
    """Return the counts of `queue` in one round trip; lanes beyond the first 1,000 are left out and said so."""
    keys = queue.keys
    names = [keys.pending, keys.lanes, keys.held, keys.active, keys.scheduled]
    names += [keys.suspect, keys.isolated, keys.dead, keys.meta]
    reply = queue.run(_COUNT, names, [keys.base, _LANES_COUNTED])
    pending, scheduled, active, suspect, dead, due, rest, held, paused, forgotten, lanes, waiting, oldest = reply
    due, oldest = (None if ms < 0 else ms for ms in (due, oldest))
    told = json.loads(paused) if paused else None
    return Counts(pending, scheduled, active, suspect, dead, due, rest, held, told, forgotten, lanes, waiting, oldest)


@contextmanager
def server_errors(doing: str) -> Iterator[None]:
    """Turn what redis-py raises while `doing` something into the `BusError` that says what to do about it."""
    try:
        yield
    except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
        raise BusRefused(f"{doing}: the server refuses this user, check password and ACL rules: {error}") from error
    except OutOfMemoryError as error:
        raise BusFull(f"{doing}: the server is at its memory limit and wrote nothing: {error}") from error
    except _PASSING as error:
        raise BusUnavailable(f"{doing}: the server can't serve now: {error}") from error
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        raise BusUnavailable(f"{doing}: no answer from the server: {error}") from error
    except redis.ResponseError as error:
        raise _typed(doing, error) from error


def _typed(doing: str, error: redis.ResponseError) -> Exception:
    text = str(error)
    if "EMQPROTOCOL" in text:
        return UnsupportedServer(f"{doing}: {text.partition('EMQPROTOCOL ')[2]}. Run one major version on one prefix.")
    if text.startswith(_UNNAMED) or "non local key" in text:
        return BusUnavailable(f"{doing}: the server can't serve now: {text}")
    return ScriptFailed(f"{doing}: {text}")
