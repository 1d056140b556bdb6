"""Runs one job: from its row to its end."""

import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import cache, partial
from inspect import iscoroutinefunction
from math import inf
from typing import Any, Protocol

from django.db import connections
from django.dispatch import Signal

from echomq_django import exceptions, results
from echomq_django.bus import jobs
from echomq_django.bus.jobs import Death, Release, Retry
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.conf import load
from echomq_django.connection import get_bus
from echomq_django.context import make_context
from echomq_django.exceptions import BusUnavailable, UnresolvableTask
from echomq_django.framework import task_backends, task_finished, task_started
from echomq_django.middleware import stack, wrapped
from echomq_django.results import TaskResult
from echomq_django.signals import somebody_listens
from echomq_django.tasks import UNSET, resolve
from echomq_django.worker import endings
from echomq_django.worker.alarm import Alarms, within
from echomq_django.worker.board import Board, boottime
from echomq_django.worker.database import CoroutineConnections, tend_connections
from echomq_django.worker.failure import describe, without_locals
from echomq_django.worker.hands import Ended, Held
from echomq_django.worker.job import Job, read
from echomq_django.worker.loop import Loop

logger = logging.getLogger("echomq_django.worker")

_is_coroutine_function = cache(iscoroutinefunction)
_AGAIN_MS = 30_000  # for a worker that may be sound


class Coroutines(Protocol):
    """Where coroutines run."""

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run one in the caller's context, and return its value or raise its error."""

    def start(self, coroutine: Coroutine[Any, Any, None], context: Context) -> None:
        """Run one that never raises."""


class Executor:
    """Runs jobs on the thread that calls it, and coroutines on the one event loop of the process.

    On `board` it notes the time limits of jobs whose tasks have one of their own. `tends`: the database connections
    get, before and after each job, the care that a request gives them.
    """

    def __init__(
        self,
        alias: str,
        holder: str,
        *,
        board: Board | None = None,
        loop: Coroutines | None = None,
        tends: bool = True,
    ) -> None:
        self._alias, self._holder, self._board = alias, holder, board
        self._settings = load(alias)
        self._loop = loop or Loop()
        self._tend = tend_connections if tends else _leave_alone
        self._of_coroutines = CoroutineConnections() if tends else None
        self._alarms = Alarms()

    def run(self, held: Held, done: Callable[[Ended], None]) -> Ended | None:
        """Run a job and return how it ended, or None for a coroutine: it tells `done` later, on the thread of its loop.

        Never raises, and always tells, for nobody else would ever let go of the job.
        """
        try:
            return self._run(held, done)
        except BaseException:
            return _failed_itself(held)

    def is_light(self, held: Held) -> bool:
        """Return whether `run()` waits for nothing and calls nothing of the project: an event loop may do it itself."""
        asks_the_server = boottime() >= held.renewed_until
        if asks_the_server or stack(self._alias) or somebody_listens(task_started, logging.INFO):
            return False
        try:
            return _is_coroutine_function(resolve(Message.task_in(held.row.body)).func)
        except UnresolvableTask:
            return False

    def _run(self, held: Held, done: Callable[[Ended], None]) -> Ended | None:
        if boottime() >= held.renewed_until and (problem := self._renewal_problem(held)):
            logger.warning("job %s does not start here: %s", held.row.job_id, problem)
            return Ended(held, Release(held.row.job_id, held.row.token))
        try:
            job = read(held, self._settings)
        except UnresolvableTask as error:
            return Ended(held, endings.unknown(held, error))
        except Exception as error:
            logger.error("job %s can't be run: %s", held.row.job_id, error)
            return Ended(held, Death(held.row.job_id, held.row.token, describe("unrunnable", error), failures=0))
        if self._board and job.options.time_limit is not UNSET:
            self._board.limit(held.place, inf if job.options.time_limit is None else job.options.time_limit)
        context = Context()
        try:
            if _is_coroutine_function(job.task.func) and not stack(self._alias):
                self._loop.start(self._run_coroutine(held, job, context.run(self._begin, job), done), context)
                return None
            job.value = context.run(self._pass, job)
        except BaseException as error:  # a handler must not end the thread, whatever it raises
            job.error = error
        return self._ended(held, job)

    async def _run_coroutine(
        self, held: Held, job: Job, handler: Callable[[], Coroutine[Any, Any, Any]], done: Callable[[Ended], None]
    ) -> None:
        try:
            job.value = await self._call_async(handler, job)
        except BaseException as error:
            job.error = error
        try:
            ended = self._ended(held, job)
        except BaseException:
            ended = _failed_itself(held)
        done(ended)

    def _ended(self, held: Held, job: Job) -> Ended:
        if job.error is None:
            try:
                return Ended(held, endings.completed(job, self._alias), job)
            except BaseException as error:  # such as a step that can't follow any more
                job.error = error
        end = endings.failed(job, job.error)
        job.error = without_locals(job.error)
        return Ended(held, end, job)

    def time_out(self, held: Held) -> Ended:
        """Return how a job ended whose process was killed for it after its time limit."""
        job = read(held, self._settings)
        job.error = exceptions.TimeLimitExceeded()
        return Ended(held, endings.failed(job, job.error), job)

    def announce(self, ended: Ended) -> None:
        """Send Django's signal for a job whose life has ended, after the server has accepted it."""
        job = ended.job
        if not isinstance(job, Job) or isinstance(ended.end, Retry):
            return
        if not somebody_listens(task_finished, logging.INFO):
            return
        result = job.result
        if job.error is None:
            results.succeeded(result, job.value)
        else:
            results.failed(result, job.error)
        self._tend()
        self._send(task_finished, result)
        self._tend()

    def _pass(self, job: Job) -> Any:
        """Call the handler, inside the middleware if there is any."""
        if not stack(self._alias):
            return self._call(job)
        return wrapped(self._alias, job.passage, partial(self._call, job))

    def _call(self, job: Job) -> Any:
        handler, limit = self._begin(job), job.setting("soft_time_limit")
        if _is_coroutine_function(job.task.func):
            return self._loop.run(self._call_async(handler, job))
        self._tend()
        try:
            if limit is None:
                return handler()
            return self._alarms.run(limit, handler, partial(self._drop_connections, job.queue))
        finally:
            self._tend()

    async def _call_async(self, handler: Callable[[], Coroutine[Any, Any, Any]], job: Job) -> Any:
        if self._of_coroutines:
            await self._of_coroutines.tend()
        limit = job.setting("soft_time_limit")
        return await (handler() if limit is None else within(limit, handler()))

    def _begin(self, job: Job) -> Callable[[], Any]:
        """Say that the job starts, and return its handler with all that it gets."""
        task, args = job.task, job.args
        result = job.result if task.takes_context or somebody_listens(task_started, logging.INFO) else None
        if result is not None:
            self._send(task_started, result)
        if task.takes_context and result is not None:
            args = [make_context(result, job.row, job.queue), *args]
        return partial(task.func, *args, **job.kwargs)

    def _renewal_problem(self, held: Held) -> str:
        """Renew what this process holds; returns why a job may not start all the same, or nothing."""
        asked = boottime()
        try:
            token = jobs.extend(held.queue, self._holder).get(held.row.job_id)
        except BusUnavailable as error:
            return f"its lease may have ended, and the server can't be asked: {error}"
        held.renewed_until = asked + held.row.lease_ms / 1000
        return "" if token == held.row.token else "it was taken over"

    def _drop_connections(self, queue: Queue) -> None:
        """Forget connections that an interrupted handler may have left between a question and its answer."""
        for connection in connections.all(initialized_only=True):
            connection.close()
        queue.line.close()
        get_bus(self._alias).close()

    def _send(self, signal: Signal, result: TaskResult[Any, Any]) -> None:
        for receiver, error in signal.send_robust(sender=type(task_backends[self._alias]), task_result=result):
            if isinstance(error, Exception):
                logger.error("a receiver of a task signal failed: %r", receiver, exc_info=error)


def _leave_alone() -> None:
    """Keep the connections as they are: whoever runs the jobs uses them too."""


def _failed_itself(held: Held) -> Ended:
    logger.exception("job %s is handed back: the worker itself failed", held.row.job_id)
    return Ended(held, Release(held.row.job_id, held.row.token, _AGAIN_MS))
