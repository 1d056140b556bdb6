"""The queue that tests with a database share with the project's settings."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from pytest_django import Settings

from echomq_django.bus.queue import Queue, open_queue
from echomq_django.connection import get_bus


@pytest.fixture
def queue(emq: Settings) -> Queue:
    """The queue `default` of the backend `default`, as a worker has announced it."""
    queue = get_bus().queue("default")
    open_queue(queue, 30_000)
    return queue


@pytest.fixture
def outage(emq: Settings) -> Callable[[], AbstractContextManager[None]]:
    """Return what cuts the project off from its server for a while."""

    @contextmanager
    def cut_off() -> Iterator[None]:
        reachable = emq.CACHES
        emq.CACHES = {**reachable, "emq": {**reachable["emq"], "LOCATION": "redis://127.0.0.1:1/0"}}
        yield
        emq.CACHES = reachable

    return cut_off
