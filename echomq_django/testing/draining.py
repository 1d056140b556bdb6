"""Runs what is pending in the thread of a test, by the code of a worker."""

import os
from collections.abc import Coroutine, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync

from echomq_django import exceptions
from echomq_django.bus import schedule
from echomq_django.bus.jobs import Completion, Release, Retry
from echomq_django.bus.queue import count, open_queue
from echomq_django.commit import commit_test_case
from echomq_django.connection import Bus, get_bus
from echomq_django.exceptions import EndlessDrain
from echomq_django.framework import DEFAULT_TASK_BACKEND_ALIAS
from echomq_django.worker.consumer import Consumer, Source
from echomq_django.worker.errands import run_errands
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import Ended, Held
from echomq_django.worker.job import Job
from echomq_django.worker.prefetch import Prefetch
from echomq_django.worker.rota import Rota

_MOST = 10_000  # runs of one drain; a job that enqueues itself would never let it end
_ANSWERS = (exceptions.Retry, exceptions.Discard)
_LISTS = {Completion: "succeeded", Retry: "retried", Release: "handed_back"}


@dataclass(frozen=True, slots=True)
class Drained:
    """The ids of jobs by how each run ended, in that order; a job that failed twice is twice in `retried`.

    `died` are the deaths that became rows of `DeadJob`, also those of jobs that expired. `handed_back` are jobs whose
    task can't be found.
    """

    succeeded: list[str] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    handed_back: list[str] = field(default_factory=list)


def drain(
    *, advance: timedelta = timedelta(), raises: bool = True, backend: str = DEFAULT_TASK_BACKEND_ALIAS
) -> Drained:
    """Run all jobs of `backend` that are due, in this thread and its transaction, until nothing is left to run.

    Claims, middleware, retries, finishes, dead jobs, groups and the outbox are the real ones. What waits for the COMMIT
    of a `TestCase` is pushed first. `advance` lets so much time pass for delayed jobs, retries in back-off and
    expiries: in the order in which they are due, without waiting. What runs may enqueue more.

    The first error of a handler is raised, once the server knows how its job ended; with `raises=False` it only shows
    in what is returned. `Retry` and `Discard` are answers of a handler and never raised. Raises `EndlessDrain` after
    10,000 runs. Never call it beside a worker, or inside `atomic()`.
    """
    return _Drain(get_bus(backend), raises).run(round(advance / timedelta(milliseconds=1)))


class _OwnHands:
    """The hands of a worker that has one thread, the caller's: a job has ended when it is handed over."""

    threads, waiting = 1, 0

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._ended: list[Ended] = []

    def __len__(self) -> int:
        return 0

    @property
    def idle_threads(self) -> int:
        return 1

    @property
    def held(self) -> list[Held]:
        return []

    def add(self, jobs: Sequence[Held]) -> None:
        for held in jobs:
            ended = self._executor.run(held, self._ended.append)
            if ended is not None:
                self._ended.append(ended)

    def ended(self) -> list[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def let_go(self, jobs: Iterable[Held]) -> None: ...

    def take_back(self, older_than: float = 0.0) -> list[Held]:
        return []


class _OwnLoop:
    """Runs coroutines so that what they call with `sync_to_async` runs in this thread too."""

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def run() -> Any:
            return await coroutine

        return async_to_sync(run)()

    def start(self, coroutine: Coroutine[Any, Any, None], context: Context) -> None:
        context.run(self.run, coroutine)


class _Drain:
    """One call of `drain()`."""

    def __init__(self, bus: Bus, raises: bool) -> None:
        self._bus, self._raises = bus, raises
        self._queues = bus.queues()
        self._drained = Drained()
        self._runs = 0
        self._error: BaseException | None = None
        holder = f"drain:{os.getpid()}"
        self._executor = Executor(bus.settings.alias, holder, loop=_OwnLoop(), tends=False)
        self._consumers = [self._consumer(Source(self._queues, holder, alone=alone)) for alone in (False, True)]

    def run(self, advance_ms: int) -> Drained:
        for queue in self._queues:
            open_queue(queue, round(self._bus.settings.for_queue(queue.name).lease * 1000))
        self._run_what_is_due()
        while advance_ms > 0:
            advance_ms -= self._let_pass(advance_ms)
            self._run_what_is_due()
        return self._drained

    def _consumer(self, source: Source) -> Consumer:
        hands: Any = _OwnHands(self._executor)
        return Consumer(source, Rota([1] * len(self._queues)), hands, Prefetch(0), self._note, lambda: None)

    def _run_what_is_due(self) -> None:
        try:
            self._keep_house()
            while any(consumer.work() for consumer in self._consumers) or self._keep_house():
                pass
        finally:
            if self._error:  # more than what follows from it, such as a transaction that it broke
                raise self._error

    def _keep_house(self) -> int:
        """Do what a COMMIT, the supervisor and the keeper of a worker do; return how many jobs moved."""
        from echomq_django.floor import dead_letters, outbox  # models can't be imported before the apps are loaded

        moved = commit_test_case() + outbox.relay(self._bus)
        for queue in self._queues:
            dead = dead_letters.mirror(queue, self._bus.settings.alias)
            self._drained.died.extend(row.job_id for row in dead)
            moved += len(dead) + run_errands(self._bus, queue) + schedule.promote(queue).count
        return moved

    def _let_pass(self, left_ms: int) -> int:
        """Let time pass until something is due, at most `left_ms`, and return how much."""
        due = [found for queue in self._queues if (found := count(queue).next_due_ms) is not None]
        passed = min([left_ms, *(max(1, ms) for ms in due)])
        for queue in self._queues:
            schedule.hasten(queue, passed)
        return passed

    def _note(self, ended: Ended) -> None:
        """Hear how a job ended, once the server knows it; with an error to be raised no other job begins."""
        self._executor.announce(ended)
        self._runs += 1
        row, job = ended.held.row, ended.job
        if listed := _LISTS.get(type(ended.end)):
            getattr(self._drained, listed).append(row.job_id)
        if isinstance(job, Job) and job.error and self._is_to_be_raised(job.error):
            self._error = job.error
        elif self._runs >= _MOST:
            self._error = EndlessDrain(
                f"{_MOST:,} jobs were run, the last was {row.job_id}: does a job enqueue itself? Enqueue fewer at once"
            )
        for consumer in self._consumers:
            consumer.stopping = self._error is not None

    def _is_to_be_raised(self, error: BaseException) -> bool:
        return isinstance(error, KeyboardInterrupt) or (self._raises and not isinstance(error, _ANSWERS))
