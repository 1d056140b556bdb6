"""What the workers of these tests run that belongs together, is unique, or can be cancelled; and their middleware."""

import json
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from echomq_django import Discard, JobContext, Retry, task
from echomq_django.middleware import Passage
from tests.chaos import ledger

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@task
def add(*numbers: int) -> int:
    """Return the sum."""
    return sum(numbers)


@task
def tell(value: Any, name: str) -> None:
    """Note under `name` that this was started, and with which value."""
    ledger.note_start(name)
    ledger.note_effect(name, json.dumps(value))


@task(unique="done", unique_key=lambda value, name: name)
def tell_once(value: Any, name: str) -> None:
    """Do as `tell` does, for one value of a name at a time."""
    ledger.note_start(name)
    ledger.note_effect(name, json.dumps(value))


@task(takes_context=True)
def work_until_cancelled(context: JobContext, ending: str) -> None:
    """Work until somebody cancels the job, then end well, ask for another try, or raise."""
    ledger.note_start(context.job_id)
    while not context.cancelled:
        time.sleep(0.01)
    ledger.note_effect(context.job_id, "stopped")
    if ending == "retry":
        raise Retry("it can be done later", after=0)


@task(takes_context=True)
def report(context: JobContext) -> None:
    """Tell how far it is, and what it does."""
    context.log("begins")
    context.progress(1, 4)
    context.log("ends")
    context.progress(3, 4)


@task(takes_context=True)
def log_and_work(context: JobContext) -> None:
    """Write a line into the log of the job, then have an effect."""
    ledger.note_start(context.job_id)
    context.log("begins")
    ledger.note_effect(context.job_id)


@task(takes_context=True, retry_on=KeyError)
def ask_for_retry(context: JobContext, after: float | None) -> None:
    """Ask for another try at the first start."""
    if ledger.note_start(context.job_id) == 1:
        raise Retry("the other side is busy", after=after)


@task(takes_context=True)
def give_up(context: JobContext) -> None:
    """Give up at once."""
    ledger.note_start(context.job_id)
    raise Discard("the order is gone")


@task(takes_context=True, max_failures=1)
def die_unless(context: JobContext, cure: str) -> None:
    """Die, unless the file `cure` is there."""
    if not Path(cure).exists():
        raise ValueError("no cure")


@task
def whose() -> str:
    """Return the tenant."""
    return tenant.get()


@task
async def whose_in_coroutine() -> str:
    """Return the tenant, on the event loop."""
    return tenant.get()


@task
def tell_tenant(value: Any, name: str) -> None:
    """Note under `name` the value and the tenant."""
    ledger.note_effect(name, json.dumps([value, tenant.get()]))


class Tenant:
    """Carries the tenant from where a job is enqueued to where it runs."""

    def enqueue(self, passage: Passage) -> None:
        """Note the tenant, unless the job before this one has given it its own."""
        passage.headers.setdefault("tenant", tenant.get())

    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        """Set the tenant around the run."""
        before = tenant.set(passage.headers["tenant"])
        try:
            return proceed()
        finally:
            tenant.reset(before)


class Witness:
    """Notes what it sees of each run."""

    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        """Note the job, its attempt and the outcome."""
        try:
            value = proceed()
        except Exception as error:
            ledger.note_signal(passage.job_id, f"attempt {passage.attempt}: {type(error).__name__}")
            raise
        ledger.note_signal(passage.job_id, f"attempt {passage.attempt}: {value}")
        return value
