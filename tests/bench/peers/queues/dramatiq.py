"""Dramatiq with its Redis broker and its default middleware."""

import os
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.bench import workload

broker = RedisBroker(url=os.environ["EMQ_BENCH_REDIS_URL"])
dramatiq.set_broker(broker)
nothing = dramatiq.actor(workload.nothing)
report = dramatiq.actor(workload.report)

enqueue_bulk = None  # a group sends one message after another


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    handler.send(*args, **kwargs)


def unfinished() -> int:
    """Return how many messages are not acknowledged."""
    return int(broker.client.hlen("dramatiq:default.msgs"))
