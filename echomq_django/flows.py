"""Jobs that belong together: chains, where one follows another, and groups, which another waits for."""

from collections.abc import Iterable
from typing import Any, ParamSpec

from echomq_django.backend import GroupResult, JobBackend
from echomq_django.exceptions import InvalidOption
from echomq_django.results import TaskResult
from echomq_django.steps import Step
from echomq_django.tasks import Task

P = ParamSpec("P")


def step(task: Task[..., Any], *args: Any, **kwargs: Any) -> Step:
    """Return a call of `task` for a chain or a group; nothing is enqueued yet."""
    return Step(task, args, kwargs)


def enqueue_chain(*steps: Step) -> TaskResult[..., Any]:
    """Enqueue the first step and return its result; each other is enqueued when the one before it has ended well.

    A step that follows gets the value of the one before it as its first argument. The script that ends a job enqueues
    the next one, so no crash can come between.
    """
    if not steps:
        raise InvalidOption("a chain has at least one step")
    return _backend([step.task for step in steps]).enqueue_chain(steps)


def enqueue_group(steps: Iterable[Step], then: Step | None = None) -> GroupResult:
    """Enqueue all `steps`; `then` runs once each of them has ended well, or was cancelled or discarded.

    It gets the list of their ids as its first argument. A member that is dead is waited for: requeue or discard it.
    """
    members = list(steps)
    tasks = [step.task for step in ([*members, then] if then else members)]
    if not tasks:
        raise InvalidOption("a group has members, or a step that follows it, or both")
    return _backend(tasks).enqueue_group(members, then)


def _backend(tasks: list[Task[..., Any]]) -> JobBackend:
    aliases = {task.backend for task in tasks}
    if len(aliases) > 1:
        raise InvalidOption(f"steps that belong together are in several backends ({', '.join(sorted(aliases))})")
    backend = tasks[0].get_backend()
    if not isinstance(backend, JobBackend):
        raise InvalidOption(
            f"TASKS[{tasks[0].backend!r}] is no backend of this queue, so steps can't follow each other"
        )
    return backend
