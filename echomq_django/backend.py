"""The backend of Django's Tasks framework: it puts jobs on the bus, after the COMMIT that they belong to."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

import redis
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.utils.asyncio import async_unsafe

from echomq_django.bus import ids
from echomq_django.bus import jobs as bus_jobs
from echomq_django.bus import schedule as bus_schedule
from echomq_django.bus.jobs import MAX_ROWS, After, Cancelled, GroupOf, NewJob
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Done
from echomq_django.commit import after_commit
from echomq_django.conf import ImproperlyConfiguredQueue, load
from echomq_django.connection import cache_entry, get_bus, is_bus_cache, unknown_queue
from echomq_django.exceptions import (
    BusError,
    BusUnavailable,
    InvalidJobId,
    InvalidOption,
    JobNotStored,
    UnknownQueue,
    UnsupportedServer,
)
from echomq_django.framework import BaseTask, BaseTaskBackend, InvalidTask, TaskResultDoesNotExist, task_enqueued
from echomq_django.middleware import headers_of
from echomq_django.payload import decode, encode
from echomq_django.plan import Plan, make_plan
from echomq_django.results import PARKED, TaskResult, enqueued, from_outbox, from_row, new_result, placed
from echomq_django.signals import somebody_listens
from echomq_django.steps import Step
from echomq_django.tasks import UNSET, Task, resolve

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Call = tuple[Sequence[Any], Mapping[str, Any]]

logger = logging.getLogger(__name__)

_LAST_YEAR = 2200  # the order of a job has 43 bits for its milliseconds
_ASYNC = "enqueue() waits for the network and belongs to the transaction of its thread: use 'await task.aenqueue(...)'."


@dataclass(slots=True)
class GroupResult:
    """A group that was enqueued: the ids of its members, and of the job that waits for all of them."""

    id: str
    members: list[str]
    then: str = ""


class InvalidQueue(UnknownQueue, InvalidTask):
    """A task names a queue that is not listed in `QUEUES`; also Django's `InvalidTask`."""


@dataclass(slots=True)
class Batch:
    """Jobs of one task on their way to one queue; `results` are theirs, where anybody has one."""

    task: Task[..., Any]
    plan: Plan
    jobs: list[NewJob]
    results: list[TaskResult[..., Any]]

    def due(self, start: int, stop: int) -> list[NewJob]:
        """Return some of the jobs, with the delay that is left until `run_after` by this machine's clock."""
        jobs, run_after = self.jobs[start:stop], self.task.run_after
        if run_after is None:
            return jobs
        left = (run_after - datetime.now(run_after.tzinfo)).total_seconds()
        return [replace(job, delay_ms=max(0, round(left * 1000))) for job in jobs]

    def result_of(self, job: NewJob) -> TaskResult[..., Any]:
        """Return a result for a job of which nobody has one."""
        result = new_result(self.task, job.job_id, decode(Message.unpack(job.body).payload))
        enqueued(result, self.state)
        return result

    @property
    def state(self) -> str:
        """Where the jobs are after the push."""
        return "scheduled" if self.task.run_after else "pending"


class JobBackend(BaseTaskBackend):
    """Everything of a backend but the delivery: both of ours check, encode and wait for the COMMIT in the same way."""

    task_class = Task
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: BaseTask[..., Any]) -> None:
        """Raise Django's `InvalidTask` if this backend can't run `task`; an unknown queue is an `InvalidQueue`."""
        settings = load(self.alias)
        if task.queue_name not in settings.queues:
            raise InvalidQueue(unknown_queue(settings, task.queue_name))
        super().validate_task(task)
        if task.run_after is not None and task.run_after.year > _LAST_YEAR:
            raise InvalidTask(f"run_after = {task.run_after}: must not be later than the year {_LAST_YEAR}")

    def validate_call(self, step: Step) -> None:
        """Raise what `enqueue()` would raise for this call, and enqueue nothing."""
        self._plan(step.task).job(step.args, step.kwargs, encode(step.args, step.kwargs))

    @async_unsafe(_ASYNC)
    def enqueue(self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[P, R]:  # type: ignore[override]
        """Put a job in its queue, after the COMMIT of the database that is in a transaction; its id is known now."""
        return cast("TaskResult[P, R]", self.enqueue_chain([Step(task, args, kwargs)]))

    def enqueue_chain(self, steps: Sequence[Step]) -> TaskResult[..., Any]:
        """Put the first of `steps` in its queue; each other follows the one before it and gets its value."""
        first, chain = steps[0], [step.to_link() for step in steps[1:]]
        plan, payload = self._plan(first.task), encode(first.args, first.kwargs)
        job = self._job(plan, first, payload, chain)
        result = new_result(first.task, job.job_id, decode(payload))
        batch = Batch(first.task, plan, [job], [result])
        after_commit(plan.database, lambda committed: self.deliver(batch, committed))
        return result

    @async_unsafe(_ASYNC)
    def enqueue_group(self, steps: Sequence[Step], then: Step | None) -> "GroupResult":
        """Put `steps` in their queue, and with them the job that waits until all of them are over.

        All in one queue, for they are counted there; `then` may be of another. It gets the list of their ids first.
        """
        plans = [self._plan(step.task) for step in steps]
        for plan in [*plans, self._plan(then.task)] if then else plans:
            if plan.unique is not UNSET:
                raise InvalidOption(f"{plan.task}: a job of a group can't be unique, the group would wait for ever")
        if len({plan.queue for plan in plans}) > 1:
            names = ", ".join(sorted({plan.queue for plan in plans}))
            raise InvalidOption(f"the members of a group are in several queues ({names}): put them into one")
        jobs = [self._job(plan, step, encode(step.args, step.kwargs)) for plan, step in zip(plans, steps, strict=True)]
        group, batches = GroupResult(ids.mint(plans[0].queue) if plans else "", [job.job_id for job in jobs]), []
        of: GroupOf = {"id": group.id, "size": len(jobs)}
        if then is not None:
            plan, args = self._plan(then.task), [group.members, *then.args]
            waiting = self._job(plan, Step(then.task, args, then.kwargs), encode(args, then.kwargs))
            if plans and plan.queue != plans[0].queue:
                of["queue"] = plan.queue
            if plans:
                after: After = {"group": group.id, "size": len(jobs), "far": "queue" in of}
                waiting = waiting.with_extras({"after": after})
            of["after"] = group.then = waiting.job_id
            batches.append(Batch(then.task, plan, [waiting], []))
        for plan, step, job in zip(plans, steps, jobs, strict=True):
            batches.append(Batch(step.task, plan, [job.with_extras({"group": of})], []))
        after_commit(batches[0].plan.database, partial(self.deliver_group, batches))
        return group

    @async_unsafe(_ASYNC)
    def enqueue_many(self, task: Task[..., Any], calls: Iterable[Call]) -> list[str]:
        """Put many jobs of `task` in its queue and return their ids; all arguments are checked before the first one."""
        plan = self._plan(task)
        steps = [Step(task, args, kwargs) for args, kwargs in calls]
        batch = Batch(task, plan, [self._job(plan, step, encode(step.args, step.kwargs)) for step in steps], [])
        ids = [job.job_id for job in batch.jobs]
        after_commit(plan.database, lambda committed: self.deliver(batch, committed))
        return ids

    def deliver(self, batch: Batch, committed: bool) -> None:
        """Take over a batch whose time has come; once `committed`, nobody can repeat the call."""
        raise NotImplementedError

    def deliver_group(self, batches: Sequence[Batch], committed: bool) -> None:
        """Take over the batches of a group; what waits for the others comes first."""
        for batch in batches:
            self.deliver(batch, committed)

    def _job(self, plan: Plan, step: Step, payload: bytes, chain: Sequence[Any] = ()) -> NewJob:
        headers = headers_of(self.alias, step.task, step.args, step.kwargs) if plan.settings.middleware else None
        return plan.job(step.args, step.kwargs, payload, headers=headers, chain=chain)

    def _plan(self, task: BaseTask[..., Any]) -> Plan:
        settings = load(self.alias)
        plan: Plan | None = getattr(task, "plan", None)
        if plan is None or plan.settings is not settings:
            self.validate_task(task)
            plan = make_plan(task, settings)
            if isinstance(task, Task):
                object.__setattr__(task, "plan", plan)
        return plan


class EchoMQBackend(JobBackend):
    """Runs Django's tasks as jobs on Redis or Valkey.

    Django makes one for each thread and coroutine, so it holds nothing: see `echomq_django.connection`.
    """

    def deliver(self, batch: Batch, committed: bool) -> None:
        """Push the jobs; what the server does not take after a COMMIT is parked in the database and relayed later."""
        pushed, error = self._push(batch)
        self._announce(batch, pushed)
        if error is None:
            return
        if committed:
            self._park(batch, pushed, error)
        elif isinstance(error, BusError):
            raise type(error)(f"{error} [{_extent(batch.jobs, pushed, error)}]") from error
        else:
            raise error

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Return the job as the server has it, else its death, else what is parked of it.

        Raises Django's `TaskResultDoesNotExist`, also for what is no JOB id, and `UnresolvableTask` if the code of the
        task is not here.
        """
        try:
            queue = get_bus(self.alias).queue_of(result_id)
        except InvalidJobId as error:
            raise TaskResultDoesNotExist(str(error)) from error
        found = self._from_bus(queue, result_id) if queue else None
        found = found or self._from_floor(bus_jobs.stands_for(queue, result_id) if queue else result_id)
        if found is None:
            raise TaskResultDoesNotExist(f"{result_id}: no such job, or it has completed and its result has expired")
        return found

    def fire(self, step: Step, schedule: str, slot: str) -> bool:
        """Put the job of one slot of a schedule in its queue; False if that slot, or a later one, was fired before.

        No COMMIT is waited for. Any number of processes may fire the same slot, and one does it.
        """
        plan = self._plan(step.task)
        job = self._job(plan, step, encode(step.args, step.kwargs))
        queue = get_bus(self.alias).queue(plan.queue)
        fired = _twice(lambda: bus_schedule.fire(queue, schedule, slot, job))
        self._announce(Batch(step.task, plan, [job], []), int(fired))
        return fired

    def cancel(self, job_id: str) -> bool:
        """Keep a job from running; one that runs is asked to stop. False if it is over or unknown."""
        queue = get_bus(self.alias).queue_of(job_id)
        if queue is None:
            return False
        try:
            outcome = bus_jobs.cancel(queue, job_id)
        except BusUnavailable:
            if self._cancel_parked(job_id):
                return True
            raise
        if outcome is not Cancelled.MISSING:
            return outcome > 0
        # Whoever pushes it meanwhile takes it out of the outbox only when the server has it.
        return self._cancel_parked(job_id) or bus_jobs.cancel(queue, job_id) > 0

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with the settings of this alias; nothing is connected."""
        try:
            settings = load(self.alias)
            entry = cache_entry(settings)
        except ImproperlyConfiguredQueue as error:
            return [Error(str(error), id="echomq_django.E001")]
        problems: list[CheckMessage] = []
        if not is_bus_cache(entry):
            hint = (
                "Set its BACKEND to 'echomq_django.cache.BusCache', which keeps caches.all() and clear() off the jobs."
            )
            problems.append(Error(f"CACHES[{settings.cache!r}] is no BusCache.", hint, id="echomq_django.E002"))
        if not apps.is_installed("echomq_django"):
            hint = "Add it and run migrate: dead and parked jobs are kept in its tables."
            problems.append(Error("echomq_django is not in INSTALLED_APPS.", hint, id="echomq_django.E003"))
        return problems

    def _push(self, batch: Batch) -> tuple[int, Exception | None]:
        """Push in chunks; return how many jobs the server has for sure, and what stopped it."""
        pushed = 0
        try:
            queue = get_bus(self.alias).queue(batch.plan.queue)
            while pushed < len(batch.jobs):
                chunk = batch.due(pushed, pushed + MAX_ROWS)
                _twice(partial(bus_jobs.enqueue, queue, chunk))
                pushed += len(chunk)
        except Exception as error:  # after a COMMIT no error of any kind may lose a job
            return pushed, error
        return pushed, None

    def _announce(self, batch: Batch, pushed: int) -> None:
        for result in batch.results[:pushed]:
            enqueued(result, batch.state)
        if pushed and somebody_listens(task_enqueued, logging.DEBUG):
            for result in batch.results[:pushed] or map(batch.result_of, batch.jobs[:pushed]):
                task_enqueued.send_robust(type(self), task_result=result)

    def _park(self, batch: Batch, pushed: int, error: Exception) -> None:
        from echomq_django.floor import outbox  # models can't be imported before the apps are loaded

        rest = batch.due(pushed, len(batch.jobs))
        for done, job in enumerate(rest):
            try:
                outbox.park(self.alias, batch.plan.queue, job, str(error))
            except Exception as second:
                lost = ", ".join(one.job_id for one in rest[done:])
                raise JobNotStored(
                    f"after COMMIT the server refused ({error}) and the database too ({second}); enqueue again: {lost}"
                ) from second
        for result in batch.results[pushed:]:
            enqueued(result, PARKED)
        logger.warning(
            "%d job(s) of %s are parked in the database, the server did not take them after COMMIT: %s (first: %s)",
            len(rest),
            batch.task.module_path,
            error,
            rest[0].job_id,
        )

    def _from_bus(self, queue: Queue, job_id: str) -> TaskResult[..., Any] | None:
        try:
            found = bus_jobs.read(queue, job_id)
        except ValueError as error:
            raise UnsupportedServer(f"{error}: a newer release wrote it; upgrade this process") from error
        if found is None:
            return None
        task = resolve(found.task if isinstance(found, Done) else Message.unpack(found.body).task)
        priority = task.priority if isinstance(found, Done) else found.priority
        return from_row(placed(task, backend=self.alias, queue_name=queue.name, priority=priority), found)

    def _cancel_parked(self, job_id: str) -> bool:
        from echomq_django.floor import outbox

        return outbox.cancel(job_id)

    def _from_floor(self, job_id: str) -> TaskResult[..., Any] | None:
        from echomq_django.floor import database
        from echomq_django.models import DeadJob, OutboxJob

        dead = database.rows(DeadJob).filter(job_id=job_id).order_by("-pk").first()
        if dead and dead.state != DeadJob.State.REQUEUED:
            task = placed(resolve(dead.task), backend=self.alias, queue_name=dead.queue, priority=dead.priority)
            return from_row(task, dead)
        parked = database.rows(OutboxJob).filter(job_id=job_id).first()
        if parked is None:
            return None
        task = resolve(Message.unpack(bytes(parked.body)).task)
        return from_outbox(placed(task, backend=self.alias, queue_name=parked.queue, priority=parked.priority), parked)


def enqueue_many(task: Task[..., Any], calls: Iterable[Call]) -> list[str]:
    """Enqueue `task` once for each (args, kwargs) of `calls`, in few round trips, and return the ids in order.

    It follows the rules of `task.enqueue()`. If the server fails half-way outside a transaction, the error says how
    many jobs it has.
    """
    backend = task.get_backend()
    if isinstance(backend, JobBackend):
        return backend.enqueue_many(task, calls)
    return [task.enqueue(*args, **kwargs).id for args, kwargs in calls]


def _twice(push: Callable[[], T]) -> T:
    try:
        return push()
    except BusUnavailable as error:
        if not isinstance(error.__cause__, (redis.ConnectionError, redis.ReadOnlyError)):
            raise
        # An idle connection may be gone, or lead to a replica now; ids and slots make sure that twice is once.
        return push()


def _extent(jobs: Sequence[NewJob], pushed: int, error: BusError) -> str:
    if len(jobs) == 1 and isinstance(error, BusUnavailable):  # maybe only the answer got lost
        return f"it is not known whether {jobs[0].job_id} is enqueued"
    if len(jobs) == 1:
        return f"{jobs[0].job_id} is not enqueued"
    return f"{pushed} of {len(jobs)} jobs are enqueued for sure, {jobs[pushed].job_id} is the first of the others"
