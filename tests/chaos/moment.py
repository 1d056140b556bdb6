"""The worst moments of a worker: it is killed with all its processes at its first call of one script."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from echomq_django.bus.scripts import ROOT, Script
from echomq_django.connection import get_bus
from echomq_django.models import DeadJob, OutboxJob
from tests.chaos import ledger, seen
from tests.chaos.crew import Crew, Worker
from tests.chaos.proxy import Proxy, Trap, redis_url
from tests.chaos.waiting import until
from tests.invariants import read_all

T = TypeVar("T")

SCRIPTS = {str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.glob("*/*.lua") if path.parent.name != "lib"}
STAY = ("events", "group:", "job:", "limits", "log:", "meta", "progress:", "slots", "wake")

reached: set[str] = set()


def at(script: str) -> pytest.MarkDecorator:
    """Let the fixture `moment` of a test be the one before or after a call of `script`."""
    reached.add(script)
    return pytest.mark.parametrize("script", [script])


class Moment:
    """A worker that has a trap on its link to the server, and the worker that inherits from it.

    What a test expects as a pair is what holds if the call never reached the server, and if only its answer got lost.
    """

    def __init__(self, crew: Crew, queue: Queue, link: Proxy, script: str, after: bool) -> None:
        self._crew, self._queue, self._link, self._after = crew, queue, link, after
        self._command = b"EVALSHA\r\n$40\r\n" + Script(script).sha.encode()
        self._victim: Worker | None = None
        self._trap: Trap | None = None

    def start(self, *options: str) -> Worker:
        """Start the worker that is to be killed."""
        self._victim = self._crew.start(*options, EMQ_TEST_REDIS_URL=redis_url(self._link))
        return self._victim

    def arm(self, ready: Callable[[], bool] = lambda: True) -> None:
        """Set the trap for the next call that is `ready`."""
        self._trap = Trap(self._command, self._after, lambda: self._victim.kill(), ready)
        self._link.set_trap(self._trap)

    def comes(self) -> None:
        """Wait until the worker is dead of the trap."""
        until(lambda: self._trap.sprung)

    def strike(self, *options: str, ready: Callable[[], bool] = lambda: True) -> None:
        """Start the worker and wait until it is dead of its first call that is `ready`."""
        self.arm(ready)
        self.start(*options)
        self.comes()

    def pick(self, pair: tuple[T, T]) -> T:
        """Return what is expected here."""
        return pair[self._after]

    def finds(self, job_id: str, before: State | None, after: State | None) -> None:
        """Check where a job is now, which tells that the worker has come so far and no further."""
        found = jobs.read(self._queue, job_id)
        assert (found and found.state) is self.pick((before, after)), found

    @contextmanager
    def inherited(self, *, deaths: int = 0) -> Iterator[None]:
        """Start the heir; in the end nothing may be left but the traces of what is over."""
        self._crew.start()
        yield
        until(lambda: not self._left() and not OutboxJob.objects.exists())
        assert DeadJob.objects.count() == deaths

    def ends(
        self,
        job_id: str,
        *,
        starts: tuple[int, int] = (1, 1),
        stalls: tuple[int, int] = (0, 0),
        failures: tuple[int, int] = (0, 0),
    ) -> None:
        """Wait until a job is done, and check what that took."""
        seen.done(self._queue, job_id)
        found = (ledger.starts(job_id), *(seen.events(self._queue, kind, job_id) for kind in ("stalled", "retried")))
        assert found == tuple(map(self.pick, (starts, stalls, failures))), found
        assert ledger.effect(job_id) is not None

    def _left(self) -> list[str]:
        """Return the keys of jobs that are not over, of locks, and of what runs in lanes."""
        _, queues = read_all(self._queue.client, get_bus().settings.prefix)
        return [name for keys in queues.values() for name in keys if not name.startswith(STAY)]
