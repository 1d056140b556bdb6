"""What becomes of a death on the server in a row of `DeadJob`."""

from echomq_django.bus import reads
from echomq_django.bus.dead import Dead
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Failure, Row
from echomq_django.floor import display, instants
from echomq_django.floor.fingerprint import fingerprint
from echomq_django.models import DeadJob


def of_death(queue: Queue, alias: str, death: Dead) -> DeadJob:
    """Return the unsaved row of `death`; whatever it carries, the row can be stored."""
    if death.row is None:
        return unreadable(queue, alias, death, death.problem)
    try:
        message = Message.unpack(death.row.body)
    except (ValueError, RecursionError) as error:
        return unreadable(queue, alias, death, f"its body can't be read: {error}")
    return _readable(queue, death, death.row, message)


def unreadable(queue: Queue, alias: str, death: Dead, problem: str) -> DeadJob:
    """Return the unsaved row of a death of which nothing but its bytes can be kept, and why."""
    return DeadJob(
        job_id=death.job_id,
        death_key=str(death.row.token) if death.row else f"unreadable:{death.died_at}",
        backend=alias,
        queue=queue.name,
        payload=reads.raw(queue, death.job_id),
        reason=DeadJob.UNREADABLE,
        error_message=display.shortened(problem, display.MESSAGE_LIMIT),
        died_at=instants.from_ms(death.died_at),
    )


def _readable(queue: Queue, death: Dead, row: Row, message: Message) -> DeadJob:
    args, kwargs = display.arguments(message.payload, message.options)
    return DeadJob(
        job_id=row.job_id,
        death_key=str(row.token),
        death_no=row.deaths,
        backend=message.alias,
        queue=queue.name,
        lane=row.lane,
        task=message.task,
        payload=message.payload,
        headers=display.json_safe(message.headers),
        options=display.json_safe(message.options),
        group=display.json_safe(row.extras.get("group")),
        isolate=row.extras.get("isolate") is True,
        args=args,
        kwargs=kwargs,
        attempts=row.attempts,
        failures=row.failures,
        stalled=row.stalled,
        priority=row.priority,
        max_stalled=row.max_stalled,
        lease_ms=row.lease_ms,
        enqueued_at=instants.from_ms(row.enqueued_at),
        died_at=instants.from_ms(death.died_at),
        **_error(row.failure or Failure("unknown")),
    )


def _error(failure: Failure) -> dict[str, str]:
    error_class = display.shortened(failure.error_class, 255)
    message = display.shortened(failure.message, display.MESSAGE_LIMIT)
    traceback = display.shortened(failure.traceback, display.TRACEBACK_LIMIT)
    return {
        "reason": display.shortened(failure.reason, 64),
        "error_class": error_class,
        "error_message": message,
        "traceback": traceback,
        "fingerprint": fingerprint(error_class, message, traceback),
    }
