"""The handlers that are measured."""

import asyncio
import os
import time

from echomq_django import task

REPORT = int(os.environ.get("EMQ_BENCH_REPORT", -1))  # a descriptor for the instants at which jobs started


@task
def nothing(order_id: int, language: str, **more: object) -> None:
    """Do nothing, with about 100 bytes of arguments."""


@task
def note_delay(enqueued_at: float) -> None:
    """Report how long it took from the call of `enqueue()` to here."""
    os.write(REPORT, b"%.6f\n" % (time.time() - enqueued_at))


@task
def sleep() -> None:
    """Wait as for a database or a service."""
    time.sleep(0.01)


@task
async def sleep_async() -> None:
    """Wait as for a database or a service, on the event loop."""
    await asyncio.sleep(0.01)
