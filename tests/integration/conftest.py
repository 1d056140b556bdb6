"""The queue that tests with a database share with the project's settings."""

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
