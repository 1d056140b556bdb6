"""A queue of its own for each test, on the shared server."""

import pytest
import redis

from echomq_django.bus.queue import Queue, open_queue


@pytest.fixture
def queue(redis_client: redis.Redis, prefix: str) -> Queue:
    """An empty queue that has been announced with a lease of 30 seconds."""
    queue = Queue(redis_client, prefix, "mail")
    open_queue(queue, 30_000)
    return queue
