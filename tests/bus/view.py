"""The whole keyspace of a queue as one dict, so that a test sees what a call changed and what it left alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from echomq_django.bus.queue import Queue
from echomq_django.bus.row import parse
from tests.invariants import Stored, read_all


def view(queue: Queue) -> dict[str, Any]:
    """Return all keys of `queue` by their names, rows parsed if they can be, and as `ttl` the names that expire."""
    _, queues = read_all(queue.client, queue.keys.prefix)
    stored = queues.get(queue.name, {})
    seen = {name: _row(name, one) if name.startswith("job:") else one.value for name, one in stored.items()}
    seen["ttl"] = {name for name, one in stored.items() if one.ttl_ms >= 0}
    return seen


def _row(name: str, stored: Stored) -> Any:
    if stored.kind != "string":
        return stored.value
    try:
        return parse(name.removeprefix("job:"), stored.value)
    except ValueError:
        return stored.value


@contextmanager
def changes(queue: Queue) -> Iterator[dict[str, Any]]:
    """Collect what the body changes: key -> its value afterwards, None where the key is gone.

    New events come as (kind, id, detail) without those that were there before.
    """
    changed: dict[str, Any] = {}
    before = view(queue)
    yield changed
    after = view(queue)
    changed.update({key: after.get(key) for key in before | after if before.get(key) != after.get(key)})
    if "events" in changed:
        new = changed["events"][len(before.get("events", [])) :]
        changed["events"] = [(event["kind"], event["id"], event["detail"]) for event in new]
