"""RQ."""

import os
from typing import Any

from redis import Redis
from rq import Queue

from tests.bench.workload import nothing as nothing
from tests.bench.workload import report as report

queue = Queue("default", connection=Redis.from_url(os.environ["EMQ_BENCH_REDIS_URL"]))


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    queue.enqueue(handler, *args, **kwargs)


def enqueue_bulk(count: int, handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue `count` jobs, a thousand to a call."""
    while count:
        batch = min(count, 1000)
        queue.enqueue_many([Queue.prepare_data(handler, args, kwargs) for _ in range(batch)])
        count -= batch


def unfinished() -> int:
    """Return how many jobs wait, are on their way to a worker or run."""
    on_their_way = int(queue.connection.llen(queue.intermediate_queue_key))
    return len(queue) + on_their_way + int(queue.started_job_registry.count)
