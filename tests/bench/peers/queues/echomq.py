"""This queue."""

import os
from typing import Any

import django
from django.core.management import call_command

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.settings"
django.setup()
call_command("migrate", verbosity=0)

from echomq_django import enqueue_many  # noqa: E402
from echomq_django.connection import get_bus  # noqa: E402
from tests.bench.tasks import nothing as nothing  # noqa: E402
from tests.bench.tasks import report as report  # noqa: E402


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    handler.enqueue(*args, **kwargs)


def enqueue_bulk(count: int, handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue `count` jobs as this queue does it best."""
    enqueue_many(handler, [(args, kwargs)] * count)


def unfinished() -> int:
    """Return how many jobs are pending, due or held by a worker."""
    queue = get_bus().queue("default")
    return sum(int(queue.client.zcard(f"emq:{{default}}:{key}")) for key in ("pending", "active", "scheduled"))
