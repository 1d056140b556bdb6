"""The handlers of this queue that are measured."""

import asyncio
import time

from echomq_django import task
from tests.bench import workload


@task
def nothing(order_id: int, language: str, **more: object) -> None:
    """Do nothing, with about 100 bytes of arguments."""


@task
def report(sent_at: float) -> None:
    """Say how long it took from the call of `enqueue()` to here."""
    workload.report(sent_at)


@task
def sleep() -> None:
    """Wait as for a database or a service."""
    time.sleep(0.01)


@task
async def sleep_async() -> None:
    """Wait as for a database or a service, on the event loop."""
    await asyncio.sleep(0.01)
