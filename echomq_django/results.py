"""What is known of a job, in the terms of Django's `TaskResult`."""

import json
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from traceback import format_exception
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django.conf import settings
from django.utils import timezone

from echomq_django.bus.message import Message
from echomq_django.bus.row import Done, Failure, Row, State
from echomq_django.exceptions import JobCancelled, JobDied
from echomq_django.framework import BaseTaskResult, TaskError, TaskException, TaskResultStatus
from echomq_django.payload import decode
from echomq_django.tasks import Task

if TYPE_CHECKING:
    from echomq_django.models import DeadJob, OutboxJob

P = ParamSpec("P")
R = TypeVar("R")
Arguments = tuple[list[Any], dict[str, Any]]

UNCOMMITTED, PARKED = "uncommitted", "parked"

_STATUS = {State.ACTIVE: TaskResultStatus.RUNNING, State.DEAD: TaskResultStatus.FAILED}
_JOB_CANCELLED = f"{JobCancelled.__module__}.{JobCancelled.__qualname__}"
_EARLIER = "unknown"  # who had a job before its last holder is not kept
_JOB_DIED = f"{JobDied.__module__}.{JobDied.__qualname__}"


# Frozen as Django's own is; its stubs say otherwise.
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(BaseTaskResult[P, R]):  # type: ignore[misc]
    """Django's result, and where the job is: `state` is a word of the queue, the counts are those of its bounds.

    A job that has completed dropped its arguments: `args` and `kwargs` of a result that is read later are empty.
    """

    state: str
    failures: int = 0
    stalled: int = 0

    def __post_init__(self) -> None:
        """Keep the arguments: they come from JSON."""

    def refresh(self) -> None:
        """Read the job again, wherever it is by now."""
        _copy(self, self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        """See `refresh()`."""
        _copy(self, await self.task.get_backend().aget_result(self.id))

    def cancel(self) -> bool:
        """Keep the job from running; False if it is over. One that runs is asked to stop (`context.cancelled`)."""
        return bool(self.task.get_backend().cancel(self.id))  # type: ignore[attr-defined]


_REFRESHED = {entry.name for entry in fields(TaskResult)} - {"task", "id", "args", "kwargs", "backend"}


def new_result(task: Task[P, R], job_id: str, arguments: Arguments) -> TaskResult[P, R]:
    """Return the result of a job that is not enqueued yet."""
    return _result(task, job_id, arguments, TaskResultStatus.READY, UNCOMMITTED)


def from_row(task: Task[P, R], found: "Row | Done | DeadJob", arguments: Arguments | None = None) -> TaskResult[P, R]:
    """Return the result of a job as the server or the database has it; `arguments` spares decoding them again."""
    match found:
        case Row():
            return _from_live(task, found, arguments or decode(Message.unpack(found.body).payload))
        case Done():
            return _from_done(task, found)
        case _:
            return _from_dead(task, found, arguments or decode(bytes(found.payload)))


def from_outbox(task: Task[P, R], parked: "OutboxJob") -> TaskResult[P, R]:
    """Return the result of a job that waits in the database for the server."""
    arguments, known = decode(Message.unpack(bytes(parked.body)).payload), {"enqueued_at": parked.enqueued_at}
    if "cancelled" in parked.extras:
        status, state = TaskResultStatus.FAILED, State.CANCELLED.name.lower()
        return _result(task, parked.job_id, arguments, status, state, errors=[_called_off()], **known)
    return _result(task, parked.job_id, arguments, TaskResultStatus.READY, PARKED, **known)


def placed(task: Task[..., Any], *, backend: str, queue_name: str, priority: int) -> Task[..., Any]:
    """Return `task` as a job has it; a place that the settings no longer know leaves it as it is."""
    changes = {"backend": backend, "queue_name": queue_name, "priority": priority}
    if all(getattr(task, name) == value for name, value in changes.items()):
        return task
    try:
        return replace(task, **changes)  # type: ignore[arg-type]
    except TaskException:
        return task


def started(result: TaskResult[P, R], holder: str) -> None:
    """Note that `holder` runs the job from now on."""
    now = timezone.now()
    _set(result, status=TaskResultStatus.RUNNING, state=State.ACTIVE.name.lower(), last_attempted_at=now)
    _set(result, started_at=result.started_at or now, worker_ids=[*result.worker_ids, holder])


def succeeded(result: TaskResult[P, R], value: Any) -> None:
    """Note that the job has returned `value`."""
    _set(result, status=TaskResultStatus.SUCCESSFUL, state=State.COMPLETED.name.lower(), finished_at=timezone.now())
    _set(result, _return_value=value)


def failed(result: TaskResult[P, R], error: BaseException) -> None:
    """Note that the job is given up because of `error`."""
    _set(result, status=TaskResultStatus.FAILED, state=State.DEAD.name.lower(), finished_at=timezone.now())
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    one = TaskError(exception_class_path=path, traceback="".join(format_exception(error)))
    _set(result, errors=[*result.errors, one])


def enqueued(result: TaskResult[P, R], state: str) -> None:
    """Note that the job is in the queue, or parked."""
    _set(result, state=state, enqueued_at=timezone.now())


def _result(
    task: Task[P, R], job_id: str, arguments: Arguments, status: TaskResultStatus, state: str, **known: Any
) -> TaskResult[P, R]:
    defaults: dict[str, Any] = dict.fromkeys(("enqueued_at", "started_at", "finished_at", "last_attempted_at"))
    known = {"errors": [], "worker_ids": [], **defaults, **known}
    args, kwargs = arguments
    return TaskResult(
        task=task, id=job_id, args=args, kwargs=kwargs, backend=task.backend, status=status, state=state, **known
    )


def _from_live(task: Task[P, R], row: Row, arguments: Arguments) -> TaskResult[P, R]:
    waiting = row.state is State.ACTIVE and not row.started
    begun = row.attempts - waiting
    return _result(
        task,
        row.job_id,
        arguments,
        TaskResultStatus.READY if waiting else _STATUS.get(row.state, TaskResultStatus.READY),
        row.state.name.lower(),
        enqueued_at=_moment(row.enqueued_at),
        started_at=_moment(row.claimed_at) if begun else None,
        last_attempted_at=_moment(row.claimed_at) if begun else None,
        errors=[_error(row.failure)] if row.failure else [],
        worker_ids=_workers(begun, "" if waiting else row.holder),
        failures=row.failures,
        stalled=row.stalled,
    )


def _from_done(task: Task[P, R], done: Done) -> TaskResult[P, R]:
    cancelled = done.state is State.CANCELLED
    result = _result(
        task,
        done.job_id,
        ([], {}),
        TaskResultStatus.FAILED if cancelled else TaskResultStatus.SUCCESSFUL,
        done.state.name.lower(),
        enqueued_at=_moment(done.enqueued_at),
        started_at=_moment(done.started_at),
        last_attempted_at=_moment(done.started_at),
        finished_at=_moment(done.finished_at),
        errors=[_called_off()] if cancelled else [],
        worker_ids=_workers(done.attempts, done.holder),
    )
    _set(result, _return_value=json.loads(done.value) if done.value else None)
    return result


def _from_dead(task: Task[P, R], dead: "DeadJob", arguments: Arguments) -> TaskResult[P, R]:
    failure = Failure(dead.reason, dead.error_class, dead.error_message, dead.traceback)
    return _result(
        task,
        dead.job_id,
        arguments,
        TaskResultStatus.FAILED,
        dead.state,
        enqueued_at=dead.enqueued_at,
        finished_at=dead.died_at,
        errors=[_error(failure)],
        worker_ids=_workers(dead.attempts, ""),
        failures=dead.failures,
        stalled=dead.stalled,
    )


def _called_off() -> TaskError:
    return TaskError(exception_class_path=_JOB_CANCELLED, traceback="cancelled")


def _error(failure: Failure) -> TaskError:
    text = failure.traceback or f"{failure.reason}: {failure.message}".removesuffix(": ")
    return TaskError(exception_class_path=failure.error_class or _JOB_DIED, traceback=text)


def _workers(attempts: int, last: str) -> list[str]:
    return [_EARLIER] * (attempts - bool(last)) + [last] * bool(last and attempts)


def _moment(milliseconds: int) -> datetime | None:
    zone = UTC if settings.USE_TZ else None
    return datetime.fromtimestamp(milliseconds / 1000, tz=zone) if milliseconds else None


def _set(result: TaskResult[P, R], **values: Any) -> None:
    # Frozen for its readers; Django's own backends write it the same way.
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _copy(result: TaskResult[P, R], fresh: BaseTaskResult[Any, Any]) -> None:
    _set(result, **{name: getattr(fresh, name) for name in _REFRESHED})
