"""Huey with its Redis storage."""

import os
from typing import Any

from huey import RedisHuey

from tests.bench import workload

huey = RedisHuey("bench", url=os.environ["EMQ_BENCH_REDIS_URL"])
nothing = huey.task()(workload.nothing)
report = huey.task()(workload.report)

enqueue_bulk = None  # there is no such call


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    handler(*args, **kwargs)


def unfinished() -> int:
    """Return how many jobs wait: a job that runs is nowhere on the server."""
    return len(huey)
