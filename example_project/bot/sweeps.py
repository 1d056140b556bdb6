"""Many sweepers over the same expired leases: with the script, and with a loop of single commands."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier
from typing import Protocol, cast

from echomq_django.bus import ids, jobs, recovery
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.queue import Queue, open_queue, server_errors
from echomq_django.bus.row import Row, parse
from echomq_django.connection import Bus
from example_project.bot import naive_recovery

LEASES, SWEEPERS = 1000, 10
_LEASE_MS = 50
_BOUND = 3
_PAGE = 20
_HOLDER = "gone.1"
_CALM_MS = 60_000  # no pause between two passes of this run is an outage


class _Pass(Protocol):
    """What one pass of a sweeper took back."""

    @property
    def stalled(self) -> list[str]: ...


@dataclass(frozen=True)
class Outcome:
    """What was found after all leases were taken back.

    `reported` is the sum of what the sweepers say to have taken back, `counted` the sum of the stalls in the rows;
    `wrong` rows count another number than one, and `condemned` ones enough to be dead.
    """

    reported: int
    counted: int
    wrong: int
    condemned: int
    milliseconds: int


def compare(bus: Bus) -> tuple[Outcome, Outcome]:
    """Return what the script and what the loop made of as many leases each, in queues that are gone afterwards."""
    with _scratch_queue(bus) as ours, _scratch_queue(bus) as theirs:
        _let_leases_expire(ours)
        _let_leases_expire(theirs)
        looped = _sweep(theirs, lambda queue: naive_recovery.recover(queue, limit=_PAGE))
        _let_grace_pass(ours)
        scripted = _sweep(ours, lambda queue: recovery.recover(queue, beat_ms=_CALM_MS, limit=_PAGE))
    return scripted, looped


@contextmanager
def _scratch_queue(bus: Bus) -> Iterator[Queue]:
    queue = Queue(bus.client(), f"sweeps-{secrets.token_hex(4)}", "scratch")
    open_queue(queue, _LEASE_MS)
    try:
        yield queue
    finally:
        with server_errors("dropping a scratch queue"):
            queue.client.unlink(*queue.client.scan_iter(f"{queue.keys.base}*", count=1000))
            queue.client.close()


def _let_leases_expire(queue: Queue) -> None:
    """Lease all jobs to somebody who is never heard of again, and tell recovery that passes happen here."""
    fresh = [NewJob(ids.mint(queue.name), b"body", max_stalled=None, lease_ms=_LEASE_MS) for _ in range(LEASES)]
    jobs.enqueue(queue, fresh)
    while jobs.claim(queue, _HOLDER, jobs.new_nonce(), jobs.MAX_ROWS):
        pass
    recovery.recover(queue, beat_ms=_CALM_MS)
    time.sleep(_LEASE_MS / 1000)


def _let_grace_pass(queue: Queue) -> None:
    """Wait as recovery itself does at its first pass, when holders might only have been unable to renew."""
    while grace_ms := recovery.recover(queue, beat_ms=_CALM_MS, limit=0).grace_ms:
        time.sleep(grace_ms / 1000)


def _sweep(queue: Queue, one_pass: Callable[[Queue], _Pass]) -> Outcome:
    start = Barrier(SWEEPERS)

    def sweep(_: int) -> int:
        taken = 0
        start.wait()
        while stalled := one_pass(queue).stalled:
            taken += len(stalled)
        return taken

    began = time.monotonic()
    with ThreadPoolExecutor(SWEEPERS) as sweepers:
        reported = sum(sweepers.map(sweep, range(SWEEPERS)))
    milliseconds = round((time.monotonic() - began) * 1000)
    stalls = Counter(row.stalled for row in _rows(queue))
    return Outcome(
        reported=reported,
        counted=sum(stalled * rows for stalled, rows in stalls.items()),
        wrong=stalls.total() - stalls[1],
        condemned=sum(rows for stalled, rows in stalls.items() if stalled >= _BOUND),
        milliseconds=milliseconds,
    )


def _rows(queue: Queue) -> list[Row]:
    with server_errors("reading the rows"):
        names = [name.decode() for name in cast("list[bytes]", queue.client.zrange(queue.keys.pending, 0, -1))]
        raws = cast("list[bytes]", queue.client.mget([queue.keys.job(name) for name in names]))
    rows = [parse(name, raw) for name, raw in zip(names, raws, strict=True)]
    return [row for row in rows if isinstance(row, Row)]
