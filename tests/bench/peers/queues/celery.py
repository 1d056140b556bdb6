"""Celery with Redis as its broker and no result backend, which is its default."""

import os
from typing import Any

from celery import Celery
from redis import Redis

from tests.bench import workload
from tests.bench.peers.options import OPTIONS

URL = os.environ["EMQ_BENCH_REDIS_URL"]
CLIENT = Redis.from_url(URL)

app = Celery("bench", broker=URL)
app.conf.update(broker_connection_retry_on_startup=True, **OPTIONS)
nothing = app.task(workload.nothing, name="nothing")
report = app.task(workload.report, name="report")

enqueue_bulk = None  # a group sends one message after another


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    handler.delay(*args, **kwargs)


def unfinished() -> int:
    """Return how many messages wait or are not acknowledged."""
    return int(CLIENT.llen("celery")) + int(CLIENT.hlen("unacked"))
