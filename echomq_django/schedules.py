"""Periodic jobs as rows of django-q2: what a row says, which slot of it is due, and the functions that rows name.

Nobody else knows django-q2. Its rows are found through the app registry, so a project without it still works.
"""

import ast
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, cast
from zoneinfo import ZoneInfo

from django.apps import apps
from django.db import connections, models, router, transaction

from echomq_django import conf
from echomq_django.backend import EchoMQBackend, JobBackend
from echomq_django.bus import recovery
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.recovery import Recovered
from echomq_django.connection import Bus, get_bus
from echomq_django.cron import Cron
from echomq_django.exceptions import EchoMQError, InvalidOption, InvalidSchedule, InvalidSetting
from echomq_django.floor import dead_letters, outbox
from echomq_django.framework import BaseTask
from echomq_django.slots import Slot, instant, slot_of, stored, zone_of
from echomq_django.steps import Step
from echomq_django.tasks import Task, resolve
from echomq_django.worker.keeper import announce

logger = logging.getLogger(__name__)

CLUSTER = "emq"
FIRE = f"{__name__}.fire"

_MAX_MINUTES = 32_767  # what django-q2's column holds
_MAX_NAME = 100
_PATIENCE_S = 30  # below the timeout of a cluster


@dataclass(frozen=True, slots=True)
class Order:
    """What the arguments of a row say: the call that is due, and the name under which its slots are counted."""

    name: str
    step: Step
    zone: ZoneInfo

    @classmethod
    def parse(cls, given: Any) -> "Order":
        """Read JSON, as text or read already; raises `InvalidSchedule`, `UnresolvableTask` or `InvalidOption`."""
        try:
            data = json.loads(given) if isinstance(given, str) else dict(given)
            name, alias = data["name"], data.get("backend") or resolve(data["task"]).backend
            step = Step.from_data(data, alias)
            ok = isinstance(name, str) and isinstance(step.args, list) and isinstance(step.kwargs, dict)
        except EchoMQError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            ok = False
        if not ok:
            raise InvalidSchedule(f"its arguments are {given!r}: set them to {_example('nightly', 'app.tasks.report')}")
        return cls(name, step, zone_of(data.get("timezone")))

    def fire(self, slot: datetime) -> bool:
        """Enqueue the job of a slot; False if that slot, or a later one, was fired before."""
        backend = _backend(self.step.task)
        if not isinstance(backend, EchoMQBackend):
            raise InvalidSchedule(f"TASKS[{self.step.task.backend!r}] has no server to count its slots")
        return backend.fire(self.step, self.name, slot.isoformat(timespec="milliseconds"))


def schedule(
    task: Task[..., Any],
    *,
    cron: str | None = None,
    every: float | timedelta | None = None,
    name: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    timezone: str | None = None,
) -> Any:
    """Have `task` enqueued by the clock, and return the row of django-q2 that says so.

    `cron` is read on the clocks of `timezone` (django-q2's own if not given); `every` is a number of seconds or a
    timedelta, counted from now. Options of the task travel along: `task.using(priority=5)`. The schedule is known by
    its `name`: saying the same again changes nothing, so an edit in the admin stays until the call itself is another
    one. Raises `InvalidOption` and what `enqueue()` raises, before anything is written.
    """
    if not isinstance(name, str) or not name or len(name) > _MAX_NAME or not name.isprintable():
        raise InvalidOption(f"name = {name!r}: must be 1 to {_MAX_NAME} characters of printable text")
    timing = _timing(cron, every, zone_of(timezone))
    order = {"name": name, **_call(task, args, kwargs or {}), **({"timezone": timezone} if timezone else {})}
    asked = blake2b(json.dumps([cron, str(every), order], sort_keys=True).encode(), digest_size=6).hexdigest()
    fields = {"args": repr(json.dumps({**order, "asked": asked}, ensure_ascii=False)), **timing}
    with transaction.atomic(using=rows().db):
        own = _own(name)
        for double in own[1:]:  # two processes said it at the same moment
            double.delete()
        if own and asked in (own[0].args or ""):
            return own[0]
        return _written(own[0] if own else rows().model(name=name, func=FIRE, cluster=CLUSTER), fields)


def fire(order: Any, due: str | None = None) -> str:
    """Enqueue the job of the slot that is due: what a `qcluster` calls for a row, with the instant it was meant for.

    The slot is counted by this module's rules, whatever django-q2 has made of the row, which is corrected here.
    """
    given, now = Order.parse(order), datetime.now(UTC)
    asked = instant(datetime.fromisoformat(due), now) if due else now
    row = rows().filter(name=given.name, func=FIRE).order_by("pk").first()
    slot = slot_of(row, given.zone, asked, now) if row else Slot(asked, None)
    fired = given.fire(slot.due)
    if row and slot.following and row.schedule_type == row.CRON:  # django-q2 reads it on the clocks of its own zone
        rows().filter(pk=row.pk, next_run=row.next_run).update(next_run=stored(slot.following))
    return f"{slot.due.isoformat()} {'is enqueued' if fired else 'was enqueued before'}"


def recover() -> str:
    """Take back the leases of lost workers in all queues, as each worker does by itself.

    Where no worker does, the holders of leases get time to renew first, as after an outage: that takes up to 30 s.
    """
    taken, left = 0, list(_queues())
    for _ in range(_PATIENCE_S):
        found = [(bus, queue, recovery.recover(queue)) for bus, queue in left]
        taken += sum(_announced(bus.settings.alias, queue, one) for bus, queue, one in found)
        left = [(bus, queue) for bus, queue, one in found if one.again or (one.grace_ms and count(queue).active)]
        if not left:
            break
        time.sleep(1.0)
    return f"{taken} jobs are back in line or dead"


def mirror() -> str:
    """Take deaths over from the server, up to 200 of each queue, as each worker does by itself."""
    found = [dead_letters.mirror(queue, bus.settings.alias) for bus, queue in _queues()]
    return f"{sum(map(len, found))} deaths are mirrored"


def relay() -> str:
    """Push up to 200 parked jobs of each backend, as each worker does by itself."""
    return f"{sum(outbox.relay(get_bus(alias)) for alias in conf.aliases())} parked jobs are pushed"


DUTIES: Mapping[str, Callable[[], str]] = {f"{__name__}.{duty.__name__}": duty for duty in (recover, mirror, relay)}


def install() -> list[str]:
    """Add rows for the duties that have none, for a `qcluster`; returns their names."""
    known = set(rows().filter(func__in=DUTIES).values_list("func", flat=True))
    missing = [(f"{CLUSTER} {duty.__name__}", path) for path, duty in DUTIES.items() if path not in known]
    for name, path in missing:
        rows().create(name=name, func=path, cluster=CLUSTER, schedule_type=rows().model.MINUTES, minutes=1)
    return [name for name, _ in missing]


def can_be_stored(using: str) -> bool:
    """Return whether schedules are in the database `using`, and their table is there."""
    model, connection = rows().model, connections[using]
    if rows().db != using or not router.allow_migrate_model(using, model):
        return False
    with connection.cursor() as cursor:
        return model._meta.db_table in connection.introspection.table_names(cursor)


def rows() -> models.QuerySet[Any]:
    """Return all schedules of django-q2; raises `InvalidSetting` if it is not there."""
    if not apps.is_installed("django_q"):
        raise InvalidSetting("'django_q' is not in INSTALLED_APPS: add it and run migrate, schedules are its rows")
    model = apps.get_model("django_q", "Schedule")
    return cast("models.QuerySet[Any]", model._default_manager.using(router.db_for_write(model)))


def order_of(row: Any) -> Order:
    """Return what a row asks for; raises `InvalidSchedule`, with what to change, and what `Order.parse` raises."""
    if row.func != FIRE:
        advice = f"set it to {FIRE!r}, and its arguments to {_example(row.name, row.func)}"
        raise InvalidSchedule(f"its function is {row.func!r}: {advice}; or take the cluster {CLUSTER!r} away")
    try:
        given = ast.literal_eval(row.args or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        given = row.args
    return Order.parse(given)


def _timing(cron: str | None, every: float | timedelta | None, zone: ZoneInfo) -> dict[str, Any]:
    """Return the columns that say when; whole minutes are django-q2's own, parts of one are a cron expression."""
    if (cron is None) == (every is None):
        raise InvalidOption("a schedule has either cron or every")
    model, now = rows().model, datetime.now(UTC).replace(microsecond=0)
    if every is not None:
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 1 or seconds % 1:
            raise _inexpressible(every)
        minutes, rest = divmod(seconds, 60)
        if not rest and minutes <= _MAX_MINUTES:
            first = stored(now + timedelta(minutes=minutes))
            return {"schedule_type": model.MINUTES, "minutes": int(minutes), "cron": None, "next_run": first}
        if 60 % seconds:
            raise _inexpressible(every)
        cron = f"* * * * * */{int(seconds)}"
    first = stored(Cron(cast(str, cron), zone).after(now))
    return {"schedule_type": model.CRON, "minutes": None, "cron": cron, "next_run": first}


def _inexpressible(every: object) -> InvalidOption:
    return InvalidOption(
        f"every = {every!r}: must be whole minutes, at most {_MAX_MINUTES:,}, or seconds that divide a minute"
    )


def _call(task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as data, after all that `enqueue()` would check."""
    backend = _backend(task)
    if not isinstance(backend, JobBackend):
        raise InvalidOption(f"TASKS[{task.backend!r}] is no backend of this queue, so {task.module_path} has no slots")
    data = {**Step(task, args, kwargs).to_data(), "backend": task.backend}
    backend.validate_call(Step.from_data(data, task.backend))
    return data


def _backend(task: BaseTask[..., Any]) -> Any:
    return task.get_backend()


def _own(name: str) -> list[Any]:
    found = list(rows().filter(name=name).order_by("pk").select_for_update())
    for row in found:
        if row.func != FIRE:
            raise InvalidOption(f"name = {name!r}: a schedule of django-q2 that runs {row.func} has it, take another")
    return found


def _written(row: Any, fields: Mapping[str, Any]) -> Any:
    for field, value in {**fields, "intended_date_kwarg": "due"}.items():
        setattr(row, field, value)
    row.save()
    row.next_run = fields["next_run"]  # django-q2 has its own idea of the first run of a new row
    row.save(update_fields=["next_run"])
    return row


def _example(name: str | None, task: str) -> str:
    return json.dumps({"name": name or "nightly", "task": task}, ensure_ascii=False)


def _queues() -> Iterator[tuple[Bus, Queue]]:
    return ((bus, queue) for bus in map(get_bus, conf.aliases()) for queue in bus.queues())


def _announced(alias: str, queue: Queue, recovered: Recovered) -> int:
    ids = {"stalled": recovered.stalled, "died": recovered.died, "unstarted": recovered.unstarted}
    for kind, job_ids in ids.items():
        for job_id in job_ids:
            logger.warning("job %s in %s is taken back from a lost worker: %s", job_id, queue.name, kind)
            announce(kind, alias, queue.name, job_id)
    return sum(map(len, ids.values()))
