"""Run as a process of its own: mirrors all deaths of the queue `default` and prints how many it took over."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from echomq_django.bus.dead import unmirrored  # noqa: E402
from echomq_django.connection import get_bus  # noqa: E402
from echomq_django.floor.dead_letters import mirror  # noqa: E402

print("ready", flush=True)
input()

queue = get_bus().queue("default")
taken = 0
while unmirrored(queue, limit=1):
    taken += len(mirror(queue, "default"))
print(taken)
