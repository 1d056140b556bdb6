"""What wraps the way of a job through the queue: code of the project, around each enqueue and each run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from echomq_django.conf import ImproperlyConfiguredQueue, load
from echomq_django.exceptions import InvalidArguments
from echomq_django.tasks import Task

_stacks: dict[str, tuple[Any, ...]] = {}


@dataclass(frozen=True, slots=True)
class Passage:
    """A job on its way, as middleware sees it. `headers` are text and travel with the job; enqueue may change them."""

    task: Task[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: dict[str, str]
    job_id: str = ""
    attempt: int = 0


class Middleware(Protocol):
    """What a class in `OPTIONS["middleware"]` has: one or both of these.

    The first in the list is the outermost. `run` calls `proceed()` and returns its value.
    """

    def enqueue(self, passage: Passage) -> None:
        """See a job before it is put into its queue."""

    def run(self, passage: Passage, proceed: Callable[[], Any]) -> Any:
        """Run a job, or not."""


def headers_of(
    alias: str,
    task: Task[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers that the middleware of `alias` gives a new job, beginning with those that it inherits."""
    passage = Passage(task, args, kwargs, dict(inherited or {}))
    for one in stack(alias):
        if hasattr(one, "enqueue"):
            one.enqueue(passage)
    for name, value in passage.headers.items():
        if not (isinstance(name, str) and isinstance(value, str) and (name + value).isprintable()):
            raise InvalidArguments(f"headers[{name!r}] = {value!r}: middleware must set printable text")
    return passage.headers


def wrapped(alias: str, passage: Passage, run: Callable[[], Any]) -> Any:
    """Call `run` inside the middleware of `alias`."""
    for one in reversed(stack(alias)):
        if hasattr(one, "run"):
            run = partial(one.run, passage, run)
    return run()


def stack(alias: str) -> tuple[Any, ...]:
    """Return the middleware of `alias`, the same to all threads.

    Raises `ImproperlyConfiguredQueue` for what can't be imported.
    """
    try:
        return _stacks[alias]
    except KeyError:
        return _stacks.setdefault(alias, tuple(_make(alias, path) for path in load(alias).middleware))


def _make(alias: str, path: str) -> Any:
    try:
        return import_string(path)()
    except (ImportError, TypeError) as error:
        where = f"TASKS[{alias!r}]['OPTIONS']['middleware']"
        raise ImproperlyConfiguredQueue(f"{where}: {path!r} is no class that can be made: {error}") from error


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "TASKS":
        _stacks.clear()


setting_changed.connect(_forget)
