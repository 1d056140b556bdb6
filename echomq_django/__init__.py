"""A job queue for Django on Redis or Valkey that loses no job."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echomq_django.backend import enqueue_many
    from echomq_django.context import JobContext
    from echomq_django.exceptions import Discard, Retry, SoftTimeLimit
    from echomq_django.flows import enqueue_chain, enqueue_group, step
    from echomq_django.schedules import schedule
    from echomq_django.tasks import Task, task

__all__ = [
    "Discard",
    "JobContext",
    "Retry",
    "SoftTimeLimit",
    "Task",
    "enqueue_chain",
    "enqueue_group",
    "enqueue_many",
    "schedule",
    "step",
    "task",
]

_HOMES = {
    "Discard": "exceptions",
    "JobContext": "context",
    "Retry": "exceptions",
    "SoftTimeLimit": "exceptions",
    "Task": "tasks",
    "enqueue_chain": "flows",
    "enqueue_group": "flows",
    "enqueue_many": "backend",
    "schedule": "schedules",
    "step": "flows",
    "task": "tasks",
}


def __getattr__(name: str) -> Any:
    # Django imports this package before its settings and apps are there, so nothing is loaded until it is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
