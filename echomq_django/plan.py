"""What of a job is known before its arguments are: derived once for each task and kept on it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

from echomq_django.bus import ids
from echomq_django.bus.jobs import Extras, NewJob, Unique
from echomq_django.bus.keyspace import check_lane
from echomq_django.bus.message import Message
from echomq_django.conf import Settings
from echomq_django.exceptions import InvalidOption, UnresolvableTask
from echomq_django.framework import BaseTask
from echomq_django.tasks import UNSET, Lane, Task, TaskOptions, Unset, redacted, resolve

# What a worker needs and a row has no field for.
_TRAVELLING = ("max_failures", "backoff", "soft_time_limit", "time_limit", "result_ttl")


@dataclass(frozen=True, slots=True)
class Plan:
    """The constant part of the jobs of one task; `head` is their body up to the payload."""

    settings: Settings
    queue: str
    head: bytes
    options: dict[str, Any]
    lane: Lane
    priority: int
    max_stalled: int | None
    lease_ms: int
    database: str | Unset | None
    task: str
    unique: str | float | Unset
    unique_key: Callable[..., Any] | Unset
    expires_ms: int | None
    isolate: bool

    def job(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        chain: Sequence[Any] = (),
    ) -> NewJob:
        """Return a new job for arguments and their `payload`; raises `InvalidName` for an impossible lane.

        `chain` are the steps that follow it, as data.
        """
        lane = self.lane if isinstance(self.lane, str) else check_lane(self.lane(*args, **kwargs))
        job_id, body = ids.mint(self.queue), self.head + payload
        if headers or chain:
            options = {**self.options, "chain": list(chain)} if chain else self.options
            body = Message(self.task, payload, self.settings.alias, dict(headers or {}), options).pack()
        extras = self._extras(args, kwargs) if self.unique is not UNSET or self.expires_ms or self.isolate else None
        return NewJob(job_id, body, lane, self.priority, 0, self.max_stalled, self.lease_ms, extras=extras)

    def _extras(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Extras:
        extras = Extras()
        if self.expires_ms:
            extras["expires"] = self.expires_ms
        if self.unique is not UNSET:
            extras["unique"] = self._unique(args, kwargs)
        if self.isolate:
            extras["isolate"] = True
        return extras

    def _unique(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Unique:
        by = [list(args), kwargs] if self.unique_key is UNSET else self.unique_key(*args, **kwargs)
        text = json.dumps([self.task, by], sort_keys=True, default=repr)
        key = blake2b(text.encode(errors="backslashreplace"), digest_size=12).hexdigest()
        if isinstance(self.unique, str):
            return {"key": key, "mode": self.unique}
        return {"key": key, "mode": "ttl", "ms": max(1, round(cast(float, self.unique) * 1000))}


def make_plan(task: BaseTask[..., Any], settings: Settings) -> Plan:
    """Return the plan of `task`; raises `UnresolvableTask` if a worker could not find the task by its path."""
    options = task.options if isinstance(task, Task) else TaskOptions()
    defaults = settings.for_queue(task.queue_name)
    lease = defaults.lease if options.lease is UNSET else options.lease
    travelling = _travelling(task, options)
    return Plan(
        settings=settings,
        queue=task.queue_name,
        head=Message(task.module_path, b"", settings.alias, options=travelling).pack(),
        options=travelling,
        lane="" if options.lane is UNSET else options.lane,
        priority=int(task.priority),
        max_stalled=defaults.max_stalled if options.max_stalled is UNSET else options.max_stalled,
        lease_ms=max(1, round(lease * 1000)),
        database=options.database,
        task=task.module_path,
        unique=options.unique,
        unique_key=options.unique_key,
        expires_ms=None if options.expires is UNSET else max(1, round(options.expires * 1000)),
        isolate=options.isolate is True,
    )


def _travelling(task: BaseTask[..., Any], options: TaskOptions) -> dict[str, Any]:
    original = _original(task).options
    changed = {
        name: getattr(options, name) for name in _TRAVELLING if getattr(options, name) != getattr(original, name)
    }
    for name, value in changed.items():
        if value is UNSET or callable(value):
            raise InvalidOption(f"{name} = {value!r} can't travel with a job of {task.module_path}: give it to @task")
    if isinstance(task, Task) and (places := redacted(task)):
        changed["redact"] = places  # for screens and dead jobs, which may outlive the code of the task
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
