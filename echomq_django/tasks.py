"""`@task`, the Task class with the options of the queue, and the way from a path back to its task."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from echomq_django.bus.keyspace import check_lane
from echomq_django.conf import did_you_mean, problem_of
from echomq_django.exceptions import InvalidOption, UnresolvableTask
from echomq_django.framework import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    BaseTask,
)
from echomq_django.framework import Task as AnyTask

if TYPE_CHECKING:
    from echomq_django.context import JobContext
    from echomq_django.results import TaskResult

P = ParamSpec("P")
R = TypeVar("R")


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET

Backoff = float | tuple[float, ...] | Callable[[int], float]
Lane = str | Callable[..., str]
Errors = tuple[type[BaseException], ...]


class Options(TypedDict, total=False):
    """The keywords that `@task` takes beside Django's, and `using()` too. Durations are seconds."""

    max_failures: int
    backoff: Backoff | list[float]
    retry_on: Errors | type[BaseException]
    give_up_on: Errors | type[BaseException]
    max_stalled: int | None
    lease: float
    soft_time_limit: float | None
    time_limit: float | None
    isolate: bool
    lane: Lane
    result_ttl: float
    durability: str
    database: str | None
    unique: Literal["start", "done", "debounce"] | float
    unique_key: Callable[..., Any]
    expires: float
    redact: list[str] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What a task asks for; where it is `UNSET`, the settings of the queue decide. Durations are seconds.

    `backoff` is the delay before a retry: one number, one for each failure (the last one goes on), or a function of
    the number of failures. `database` is the alias whose COMMIT the push waits for; None pushes at once.

    `unique` merges a job into one with the same `unique_key` (a function of the arguments; without it the arguments
    themselves): until that one starts, until it is done, or for so many seconds. With "debounce" the one that waits
    takes over the new arguments and delay. A job that has not started after `expires` seconds dies. `redact` names
    arguments that nobody is to see. With `isolate` a job has a process of its own.
    """

    max_failures: int | Unset = UNSET
    backoff: Backoff | Unset = UNSET
    retry_on: Errors | Unset = UNSET
    give_up_on: Errors | Unset = UNSET
    max_stalled: int | Unset | None = UNSET
    lease: float | Unset = UNSET
    soft_time_limit: float | Unset | None = UNSET
    time_limit: float | Unset | None = UNSET
    isolate: bool | Unset = UNSET
    lane: Lane | Unset = UNSET
    result_ttl: float | Unset = UNSET
    durability: str | Unset = UNSET
    database: str | Unset | None = UNSET
    unique: str | float | Unset = UNSET
    unique_key: Callable[..., Any] | Unset = UNSET
    expires: float | Unset = UNSET
    redact: tuple[str, ...] | Unset = UNSET

    def merged(self, changes: Mapping[str, Any]) -> "TaskOptions":
        """Return these options with `changes`; raises `InvalidOption` for an unknown name or an impossible value."""
        if not changes:
            return self
        for name in changes:
            if name not in _OPTIONS:
                raise InvalidOption(f"unknown option {name!r} of a task{did_you_mean(name, _KNOWN)}")
        return replace(self, **{name: _checked(name, value) for name, value in changes.items()})


_OPTIONS = frozenset(entry.name for entry in fields(TaskOptions))
_PLACE = ("priority", "queue_name", "run_after", "backend")
_KNOWN = _OPTIONS | {"priority", "queue_name", "backend"}
_NO_OPTIONS = TaskOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(BaseTask[P, R]):
    """A task of Django's framework that also carries the options of the queue; usable with any backend."""

    options: TaskOptions = _NO_OPTIONS
    # What the backend derives once from the task and the settings; see `echomq_django.plan`.
    plan: Any = field(default=None, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # As a path and what `using()` changed, since a function given as lane or backoff can't be pickled.
        original = resolve(self.module_path)
        options = _differences(self.options, original.options, _OPTIONS)
        return _restore, (self.module_path, _differences(self, original, _PLACE), options)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        **options: Unpack[Options],
    ) -> "Task[P, R]":
        """Return this task with other defaults: Django's four, and every option that `@task` takes."""
        given = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        merged = self.options.merged(options)
        _refuse_code(options)
        changed = replace(self, options=merged, **changes)
        redacted(changed)
        return changed

    if TYPE_CHECKING:

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[P, R]: ...

        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult[P, R]: ...

        def get_result(self, result_id: str) -> TaskResult[P, R]: ...

        async def aget_result(self, result_id: str) -> TaskResult[P, R]: ...


class Decorator(Protocol):
    """What `@task(...)` returns; the result of an `async def` task has the type that it resolves to."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class ContextDecorator(Protocol):
    """What `@task(takes_context=True)` returns: the context is no argument of `enqueue()`."""

    @overload
    def __call__(self, function: "Callable[Concatenate[JobContext, P], Coroutine[Any, Any, R]]", /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: "Callable[Concatenate[JobContext, P], R]", /) -> Task[P, R]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    function: None = None,
    /,
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[True],
    **options: Unpack[Options],
) -> ContextDecorator: ...
@overload
def task(
    function: None = None,
    /,
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[False] = False,
    **options: Unpack[Options],
) -> Decorator: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Make a task of a module-level function; takes Django's keywords and those of `Options`, for any backend.

    Raises `InvalidOption` for an unknown keyword or an impossible value.
    """
    if "run_after" in options:
        raise InvalidOption("run_after differs from job to job: use .using(run_after=...)")
    merged = _NO_OPTIONS.merged(options)

    def decorate(function: Callable[..., Any]) -> Task[..., Any]:
        made: Task[..., Any] = Task(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            run_after=None,
            takes_context=takes_context,
            options=merged,
        )
        redacted(made)
        return made

    return decorate if function is None else decorate(function)


def redacted(task: Task[..., Any]) -> list[int | str]:
    """Return where the arguments stand that `redact` names: by position, by name, or either.

    Raises `InvalidOption` for a name that the function does not know: a misspelt secret would be shown.
    """
    if task.options.redact is UNSET:
        return []
    parameters = list(signature(task.func).parameters.values())[task.takes_context :]
    places: list[int | str] = []
    for name in task.options.redact:
        found = [place for index, one in enumerate(parameters) for place in _places(one, index, name)]
        if not found:
            known = [
                one.name for one in parameters if one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
            ]
            raise InvalidOption(
                f"redact: {name!r} is no argument of {task.func.__qualname__}(){did_you_mean(name, known)}"
            )
        places += found
    return list(dict.fromkeys(places))


@cache
def resolve(path: str) -> Task[..., Any]:
    """Return the task at `path`, whichever framework's `@task` made it.

    Raises `UnresolvableTask`, chained from the cause, if the module or the attribute is missing, if importing fails, or
    if no task is there. A failure is not remembered.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise UnresolvableTask(f"no task at {path!r}: {type(error).__name__}: {error}") from error
    if isinstance(found, Task):
        return found
    if isinstance(found, AnyTask):
        return Task(**{entry.name: getattr(found, entry.name) for entry in fields(AnyTask)})
    raise UnresolvableTask(f"{path!r} is a {type(found).__name__} and no task: decorate the function with @task")


def _differences(one: object, other: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names if getattr(one, name) != getattr(other, name)}


def _restore(path: str, changes: dict[str, Any], options: dict[str, Any]) -> Task[..., Any]:
    task = resolve(path)
    return replace(task, options=task.options.merged(options), **changes) if changes or options else task


def _places(parameter: Parameter, index: int, name: str) -> Iterable[int | str]:
    if parameter.kind is Parameter.VAR_KEYWORD:
        yield name
    elif parameter.name == name and parameter.kind is not Parameter.VAR_POSITIONAL:
        if parameter.kind is not Parameter.KEYWORD_ONLY:
            yield index
        if parameter.kind is not Parameter.POSITIONAL_ONLY:
            yield name


def _refuse_code(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in ("retry_on", "give_up_on", "unique_key") or (name == "backoff" and callable(value)):
            raise InvalidOption(
                f"{name} = {value!r} is code, and only data travels with a job: give it to @task instead"
            )


def _checked(name: str, value: Any) -> Any:
    if value is UNSET:
        return value
    if name == "backoff":
        return _checked_backoff(value)
    if name in ("retry_on", "give_up_on"):
        return _checked_errors(name, value)
    if name == "lane":
        return value if callable(value) else check_lane(value)
    if name == "redact":
        return _checked_names(value)
    if name == "unique_key" and not callable(value):
        raise InvalidOption(f"unique_key = {value!r}: must be a function of the arguments")
    problem = problem_of(name, value)
    if name == "database" and not (value is None or isinstance(value, str)):
        problem = "must be an alias of DATABASES, or None to push at once"
    if problem:
        raise InvalidOption(f"{name} = {value!r}: {problem}")
    return value


def _checked_backoff(value: Any) -> Backoff:
    if callable(value) or problem_of("result_ttl", value) is None:
        return cast("Backoff", value)
    delays = tuple(value) if isinstance(value, list | tuple) else ()
    if not delays or any(problem_of("result_ttl", delay) for delay in delays):
        raise InvalidOption(
            f"backoff = {value!r}: must be seconds, a list of seconds, or a function of the number of failures"
        )
    return delays


def _checked_names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidOption(f"redact = {value!r}: must be a list of names of arguments")
    return tuple(value)


def _checked_errors(name: str, value: Any) -> Errors:
    classes = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        raise InvalidOption(f"{name} = {value!r}: must be exception classes")
    return classes
