"""What the bot does. Each function runs in a worker, at least once for each command."""

import os
import signal
import time
from datetime import timedelta

from django.db import transaction

from echomq_django import JobContext, task
from echomq_django.models import DeadJob
from example_project.bot.models import Lap, Reply, Start

DEPTH = 24
_STEP = timedelta(milliseconds=500)
_MOMENT = timedelta(milliseconds=400)
_LAP = timedelta(milliseconds=10)


class Stumbled(Exception):
    """The bot fell over."""


@task(takes_context=True)
def answer(context: JobContext, text: str) -> str:
    """Echo `text` until it has faded away."""
    _note_start(context)
    time.sleep(_MOMENT.total_seconds())
    words = [text[length:] for length in range(0, len(text), max(1, len(text) // 4))]
    return _reply(context, " … ".join(words))


@task(takes_context=True)
def dig(context: JobContext, text: str) -> str:
    """Dig for twelve seconds: long enough to be killed halfway."""
    start = _note_start(context)
    for start.step in range(1, DEPTH + 1):
        time.sleep(_STEP.total_seconds())
        start.save(update_fields=["step"])
    return _reply(context, f"Found {text}, {DEPTH} spits down.")


@task(takes_context=True, max_failures=3, backoff=(1, 2))
def stumble(context: JobContext, text: str) -> str:
    """Fall over until the job is dead, and go well once an operator has requeued it."""
    _note_start(context)
    time.sleep(_MOMENT.total_seconds())
    if not DeadJob.objects.filter(job_id=context.job_id).exists():
        raise Stumbled(f"fell over {text}")
    return _reply(context, f"Stepped over {text} this time.")


@task(takes_context=True, max_stalled=3)
def poison(context: JobContext, text: str) -> str:
    """Kill the process that runs it, as a handler does that takes all memory."""
    _note_start(context)
    time.sleep(_MOMENT.total_seconds())
    os.kill(os.getpid(), signal.SIGKILL)
    return text


@task(takes_context=True, queue_name="lanes", lane=lambda race, track, tenant: tenant if track == "lanes" else "")
def run_lap(context: JobContext, race: int, track: str, tenant: str) -> None:
    """Work for a moment for a tenant, who on one of the two tracks has a lane of its own."""
    time.sleep(_LAP.total_seconds())
    lap = Lap(race_id=race, job_id=context.job_id, track=track, tenant=tenant)
    Lap.objects.bulk_create([lap], ignore_conflicts=True)


def _note_start(context: JobContext) -> Start:
    return Start.objects.create(job_id=context.job_id, attempt=context.attempt, pid=os.getpid())


def _reply(context: JobContext, text: str) -> str:
    """Have the effect once: a second start finds the reply of the first one and leaves it as it is."""
    with transaction.atomic():
        reply, _ = Reply.objects.get_or_create(
            job_id=context.job_id, defaults={"text": text, "attempt": context.attempt}
        )
    return reply.text
