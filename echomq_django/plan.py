"""What of a job is known before its arguments are: derived once for each task and kept on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echomq_django.bus import ids
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.keyspace import check_lane
from echomq_django.bus.message import Message
from echomq_django.conf import Settings
from echomq_django.exceptions import InvalidOption, UnresolvableTask
from echomq_django.framework import BaseTask
from echomq_django.tasks import UNSET, Lane, Task, TaskOptions, Unset, resolve

_TRAVELLING = ("max_failures", "backoff", "result_ttl")  # what a worker needs and a row has no field for


@dataclass(frozen=True, slots=True)
class Plan:
    """The constant part of the jobs of one task; `head` is their body up to the payload."""

    settings: Settings
    queue: str
    head: bytes
    lane: Lane
    priority: int
    max_stalled: int | None
    lease_ms: int
    database: str | Unset | None

    def job(self, args: Sequence[Any], kwargs: Mapping[str, Any], payload: bytes) -> NewJob:
        """Return a new job for arguments and their `payload`; raises `InvalidName` for an impossible lane."""
        lane = self.lane if isinstance(self.lane, str) else check_lane(self.lane(*args, **kwargs))
        job_id, body = ids.mint(self.queue), self.head + payload
        return NewJob(job_id, body, lane, self.priority, 0, self.max_stalled, self.lease_ms)


def make_plan(task: BaseTask[..., Any], settings: Settings) -> Plan:
    """Return the plan of `task`; raises `UnresolvableTask` if a worker could not find the task by its path."""
    options = task.options if isinstance(task, Task) else TaskOptions()
    defaults = settings.for_queue(task.queue_name)
    lease = defaults.lease if options.lease is UNSET else options.lease
    return Plan(
        settings=settings,
        queue=task.queue_name,
        head=Message(task.module_path, b"", settings.alias, options=_travelling(task, options)).pack(),
        lane="" if options.lane is UNSET else options.lane,
        priority=int(task.priority),
        max_stalled=defaults.max_stalled if options.max_stalled is UNSET else options.max_stalled,
        lease_ms=max(1, round(lease * 1000)),
        database=options.database,
    )


def _travelling(task: BaseTask[..., Any], options: TaskOptions) -> dict[str, Any]:
    original = _original(task).options
    changed = {
        name: getattr(options, name) for name in _TRAVELLING if getattr(options, name) != getattr(original, name)
    }
    for name, value in changed.items():
        if value is UNSET or callable(value):
            raise InvalidOption(f"{name} = {value!r} can't travel with a job of {task.module_path}: give it to @task")
    return changed


def _original(task: BaseTask[..., Any]) -> Task[..., Any]:
    path = task.module_path
    if path.startswith("__main__."):
        raise UnresolvableTask(f"{path!r}: workers can't import __main__; move the task to a module of its own")
    original = resolve(path)
    if original.func is not task.func:
        raise UnresolvableTask(
            f"{path!r} is another task than the one to be enqueued: keep a task under its function's name"
        )
    return original
