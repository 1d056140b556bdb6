"""Django-q2 with its Redis broker."""

import os
from typing import Any

import django
from django.core.management import call_command

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.peers.queues.django_q2_settings"
django.setup()
call_command("migrate", verbosity=0)

from django_q.brokers import get_broker  # noqa: E402
from django_q.tasks import async_task  # noqa: E402

BROKER = get_broker()

nothing, report = "tests.bench.workload.nothing", "tests.bench.workload.report"

enqueue_bulk = None  # async_iter() is one job over many arguments


def enqueue(handler: Any, *args: Any, **kwargs: Any) -> None:
    """Enqueue one job."""
    async_task(handler, *args, broker=BROKER, **kwargs)


def unfinished() -> int:
    """Return how many jobs wait: a job that runs is nowhere on the server."""
    return int(BROKER.queue_size())
