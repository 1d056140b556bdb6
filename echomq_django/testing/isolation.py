"""Queues of their own for a test, on a server that others may share."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from django.conf import settings

from echomq_django import conf
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.connection import get_bus

_PAGE = 1000


@contextmanager
def isolated(url: str | None = None) -> Iterator[str]:
    """Give the queues of all backends a new prefix for a while, and delete their keys at the end; yields the prefix.

    With `url` they are on that server, else on the one that the settings name.
    """
    from django.test import override_settings  # costs a second import of half of Django: only for those who test

    tasks: dict[str, Any] = deepcopy(settings.TASKS)
    caches: dict[str, Any] = deepcopy(settings.CACHES)
    prefix = f"test-{secrets.token_hex(6)}"
    aliases = conf.aliases()
    for alias in aliases:
        tasks[alias].setdefault("OPTIONS", {})["prefix"] = prefix
        if url:
            caches[conf.load(alias).cache]["LOCATION"] = url
    with override_settings(TASKS=tasks, CACHES=caches):
        try:
            yield prefix
        finally:
            for alias in aliases:
                for queue in get_bus(alias).queues():
                    _delete(queue)


def _delete(queue: Queue) -> None:
    with server_errors("deleting the keys of a test"):
        keys = list(queue.client.scan_iter(match=f"{queue.keys.base}*", count=_PAGE))
        for start in range(0, len(keys), _PAGE):
            queue.client.delete(*keys[start : start + _PAGE])
