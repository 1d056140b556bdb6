"""What the workers of these tests run. Handlers note each start, and their effect as a careful handler would."""

import asyncio
import builtins
import ctypes
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, connection, transaction
from django.utils import translation

from echomq_django import task
from echomq_django.context import JobContext
from echomq_django.exceptions import SoftTimeLimit
from echomq_django.tasks import Task
from tests.chaos import ledger

SECONDS = 1_000_000  # microseconds

AnyTask = Task[..., Any]


@task(takes_context=True)
def work(context: JobContext, shortest: float = 0.0, longest: float = 0.0) -> None:
    """Take a while, then have an effect."""
    ledger.note_start(context.job_id)
    time.sleep(random.uniform(shortest, longest))
    ledger.note_effect(context.job_id)


@task(takes_context=True)
def tick(context: JobContext, schedule: str) -> None:
    """Note which schedule the job is of."""
    ledger.note_effect(context.job_id, schedule)


@task
def nothing() -> None:
    """Do nothing, in no time."""


@task(takes_context=True)
def hold(context: JobContext, gate: str) -> int:
    """Have an effect, then hold until the gate opens; later starts hold no more. Returns which start it was."""
    start = ledger.note_start(context.job_id)
    ledger.note_effect(context.job_id)
    if start == 1:
        connection.close()  # a hundred of them may wait
        pass_through(gate)
    return start


@task(takes_context=True)
def hold_each_time(context: JobContext, *gates: str) -> int:
    """Hold at the n-th start until the n-th gate opens, then have an effect."""
    start = ledger.note_start(context.job_id)
    pass_through(gates[start - 1])
    ledger.note_effect(context.job_id)
    return start


@task(takes_context=True)
def hold_and_raise(context: JobContext, *gates: str) -> int:
    """Hold in the same way, but fail at the first start."""
    start = ledger.note_start(context.job_id)
    pass_through(gates[start - 1])
    if start == 1:
        raise ValueError("too late to count")
    ledger.note_effect(context.job_id)
    return start


@task(takes_context=True)
def freeze(context: JobContext, stop: bool) -> None:
    """Stop all processes of the worker at once, if told so and at the first start."""
    if ledger.note_start(context.job_id) == 1 and stop:
        os.killpg(os.getpgrp(), signal.SIGSTOP)
    ledger.note_effect(context.job_id)


@task(takes_context=True)
def poison(context: JobContext, antidote: str, company: int) -> None:
    """Kill the own process, at the first start not before so many other jobs run in it, unless there is an antidote."""
    start = ledger.note_start(context.job_id)
    while start == 1 and ledger.started_by(os.getpid()) <= company:
        time.sleep(0.01)
    if not Path(antidote).exists():
        os.kill(os.getpid(), signal.SIGKILL)
    ledger.note_effect(context.job_id)


@task(takes_context=True)
def hold_interpreter_lock(context: JobContext, seconds: float) -> None:
    """Let no other thread of the process run for a while."""
    ledger.note_start(context.job_id)
    ctypes.PyDLL(None).usleep(int(seconds * SECONDS))
    ledger.note_effect(context.job_id)


@task(takes_context=True)
async def block_loop(context: JobContext, seconds: float) -> None:
    """Let no other coroutine of the process run for a while."""
    await sync_to_async(ledger.note_start)(context.job_id)
    time.sleep(seconds)
    await sync_to_async(ledger.note_effect)(context.job_id)


@task(takes_context=True)
def fail(context: JobContext) -> None:
    """Fail at each start."""
    ledger.note_start(context.job_id)
    raise ValueError("as always")


@task(takes_context=True, soft_time_limit=0.3, max_failures=1)
def outstay(context: JobContext, how: str) -> str:
    """Run without end, or until interrupted and then clean up; see `ENDS`."""
    ledger.note_start(context.job_id)
    return ENDS[how]()


@task(takes_context=True, soft_time_limit=0.3, max_failures=1)
async def outstay_in_coroutine(context: JobContext, how: str) -> str:
    """Sleep without end, or until interrupted and then clean up."""
    await sync_to_async(ledger.note_start)(context.job_id)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if how == "cleans up":
            return "clean"
        raise
    return "never"


def _spin() -> str:
    while True:
        time.sleep(0.001)


def _spin_and_clean_up() -> str:
    try:
        return _spin()
    except SoftTimeLimit:
        return "clean"


def _break_off_a_query() -> str:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
    return _spin()


def _sleep_past_the_limit() -> str:
    time.sleep(0.6)  # one call into C: it is interrupted at its return, which is also the handler's
    return "late"


ENDS: dict[str, Callable[[], str]] = {
    "runs on": _spin,
    "cleans up": _spin_and_clean_up,
    "is in a transaction": _break_off_a_query,
    "is in one long call": _sleep_past_the_limit,
}


@task(takes_context=True, time_limit=0.5, max_failures=1)
def overrun(context: JobContext, how: str) -> str:
    """Run without end at the first start, in one of the `OVERRUNS`; returns whether that run is over at the second."""
    if ledger.note_start(context.job_id) == 1:
        OVERRUNS[how]()
    return "over" if not Path(f"/proc/{ledger.pids(context.job_id)[0]}").exists() else "still there"


@task(takes_context=True, time_limit=0.5, max_failures=1)
async def overrun_in_coroutine(context: JobContext, how: str) -> None:
    """Run without end, with or without blocking the event loop."""
    await sync_to_async(ledger.note_start)(context.job_id)
    if how == "blocks the loop":
        time.sleep(600)
    await asyncio.Event().wait()


def _swallow_everything() -> None:
    while True:
        with suppress(BaseException):
            time.sleep(0.01)


def _wait_for_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET client_connection_check_interval = '500ms'")
        cursor.execute("SELECT pg_sleep(600)")


def _fork_and_wait() -> None:
    subprocess.run(["sh", "-c", "sleep 600 & wait"], check=True)


OVERRUNS: dict[str, Callable[[], object]] = {
    "sleeps": partial(time.sleep, 600),
    "holds the interpreter lock": lambda: ctypes.PyDLL(None).sleep(600),
    "swallows everything": _swallow_everything,
    "waits for the database": _wait_for_database,
    "has forked": _fork_and_wait,
}


def _die_of_a_question(failures: int) -> float:
    os._exit(9)


@task(takes_context=True, time_limit=0.5, backoff=_die_of_a_question, max_stalled=1)
def overrun_and_tell_nobody(context: JobContext) -> None:
    """Run without end; whoever asks how long to wait for the next try dies."""
    ledger.note_start(context.job_id)
    time.sleep(600)


_ballast: list[bytes] = []


@task(takes_context=True)
def grow(context: JobContext, megabytes: int) -> None:
    """Keep so much memory for ever."""
    ledger.note_start(context.job_id)
    _ballast.append(os.urandom(megabytes << 20))


@task(takes_context=True, soft_time_limit=30)
def work_within_a_limit(context: JobContext) -> None:
    """Do as `work` does, in no time."""
    ledger.note_start(context.job_id)
    ledger.note_effect(context.job_id)


def pass_through(gate: str) -> None:
    """Return when the file `gate` is there."""
    while not Path(gate).exists():
        time.sleep(0.01)


@task(takes_context=True)
def look_for_order(context: JobContext, number: int) -> bool:
    """Return whether the order of a view is there."""
    ledger.note_start(context.job_id)
    return ledger.has_order(number)


_tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@task(takes_context=True)
def serve_tenant(context: JobContext, name: str) -> list[str]:
    """Set a context variable and Django's language; return what they were before."""
    ledger.note_start(context.job_id)
    before = [_tenant.get(), translation.get_language()]
    _tenant.set(name)
    translation.activate("de")
    return before


@task(takes_context=True)
async def sleep_and_work(context: JobContext, seconds: float = 0.0) -> str:
    """Do as `work` does, as a coroutine."""
    await sync_to_async(ledger.note_start)(context.job_id)
    await asyncio.sleep(seconds)
    await sync_to_async(ledger.note_effect)(context.job_id)
    return context.job_id


@task(takes_context=True)
def introduce(context: JobContext) -> dict[str, object]:
    """Return what a handler knows of its job."""
    return {
        "job_id": context.job_id,
        "attempt": context.attempt,
        "fence": context.fence,
        "status": context.task_result.status.value,
    }


@task
def on_main_thread() -> bool:
    """Return whether this is the main thread of its process."""
    return threading.current_thread() is threading.main_thread()


@task(takes_context=True)
def take_signal(context: JobContext, gate: str) -> None:
    """Be the thread that is given the signal to stop, and hold until the gate opens."""
    ledger.note_start(context.job_id)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    pass_through(gate)


@task
def stop_in_debugger() -> int:
    """Let the debugger change the result."""
    number = 0
    breakpoint()
    return number


@task(max_failures=1)
def query_and_maybe_fail(number: int) -> None:
    """Send a long query, and fail at each hundredth number from deep below, with much in the hands."""
    ContentType.objects.filter(model="x" * 10_000).exists()
    if number % 100 == 0:
        _fail_deep_below(20)


def _fail_deep_below(depth: int) -> None:
    ballast = b"x" * 25_000 * depth
    if depth:
        _fail_deep_below(depth - 1)
    raise ValueError(f"with {len(ballast)} bytes in the hands")


@task
def resident_memory() -> int:
    """Return how many bytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@task
def count_queries() -> int:
    """Query the database, and return how many queries Django remembers."""
    ledger.add_order()
    return len(connection.queries)


@task
def leave_transaction_open() -> int:
    """Begin a transaction, write in it, and forget about it; returns what would be visible after a commit."""
    transaction.atomic().__enter__()
    return ledger.add_order()


@task
def turn_autocommit_off() -> int:
    """Write in a transaction without `atomic()`, and leave it so."""
    connection.set_autocommit(False)
    return ledger.add_order()


@task
def break_transaction() -> int:
    """Leave a transaction in which a query has failed."""
    transaction.atomic().__enter__()
    with connection.cursor() as cursor, suppress(DatabaseError):
        cursor.execute("SELECT 1 / 0")
    return 0


class Unspeakable(Exception):
    """An error that can't say what it is."""

    def __str__(self) -> str:
        raise SystemExit("even asking ends the process")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "CancelledError": asyncio.CancelledError,
    "Unspeakable": Unspeakable,
    "long": lambda: ValueError("x" * 5_000_000),
    "hostile": lambda: ValueError("<script>alert(1)</script> \0 \ud800 \x1b[31m"),
}


@task(takes_context=True, max_failures=1)
def raise_error(context: JobContext, name: str) -> None:
    """Raise one of `ERRORS`."""
    ledger.note_start(context.job_id)
    raise ERRORS[name]()


@task(takes_context=True, max_failures=1)
async def raise_error_in_coroutine(context: JobContext, name: str) -> None:
    """Raise one of `ERRORS` on the event loop."""
    await sync_to_async(ledger.note_start)(context.job_id)
    raise ERRORS[name]()


class Treacherous(dict[str, int]):
    """A dictionary that can't be read to its end, as one that another thread changes meanwhile."""

    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def _endless() -> object:
    value: list[object] = []
    value.append(value)
    return value


VALUES: dict[str, Callable[[], object]] = {
    "no JSON": object,
    "not a number": lambda: float("nan"),
    "endless": _endless,
    "changing": lambda: Treacherous(one=1),
    "large": lambda: "x" * (512 * 1024),
}


@task(takes_context=True)
def return_value(context: JobContext, name: str) -> object:
    """Return one of `VALUES`."""
    ledger.note_start(context.job_id)
    return VALUES[name]()


@task(takes_context=True, backoff=0)
def fail_once(context: JobContext) -> None:
    """Fail at the first start only, and be tried again at once."""
    if ledger.note_start(context.job_id) == 1:
        raise ValueError("only once")
    ledger.note_effect(context.job_id)


def _no_idea(failures: int) -> float:
    raise LookupError("no idea how long to wait")


@task(takes_context=True, give_up_on=ArithmeticError, retry_on=(ValueError, ArithmeticError), backoff=_no_idea)
def fail_in_some_way(context: JobContext, name: str) -> None:
    """Fail with an error of Python's that has this name."""
    ledger.note_start(context.job_id)
    raise getattr(builtins, name)("some way")


@task(max_failures=1)
def fail_at_once() -> None:
    """Die of the first failure, without a trace in the database."""
    raise ValueError("at once")
