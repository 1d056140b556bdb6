"""`manage.py emq_requeue`: sends dead jobs back to their queues."""

import getpass
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from echomq_django.floor import database, dead_letters, outbox
from echomq_django.models import DeadJob

_NOT_FOUND, _USAGE = 1, 2
_CHUNK = 500
_FILTERS = ("backend", "queue", "task", "reason")


class Command(BaseCommand):
    """Exit codes: 0 done, also if there was nothing to do; 1 an id that was named is no dead job; 2 usage."""

    help = "Sends dead jobs back to their queues, with new budgets and their own payload. Said twice it happens once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("ids", nargs="*", metavar="id", help="ids of jobs")
        parser.add_argument("--all", action="store_true", help="all dead jobs that the filters leave")
        for name in _FILTERS:
            parser.add_argument(f"--{name}", help=f"only with this {name}")
        parser.add_argument("--error", help="only with this error: class, its last part, or fingerprint")
        parser.add_argument("--since", type=_instant, metavar="TIME", help="only deaths from this ISO date or time on")
        parser.add_argument("--until", type=_instant, metavar="TIME", help="only deaths before this ISO date or time")
        parser.add_argument("--limit", type=int, metavar="N", help="at most so many, the oldest first")
        parser.add_argument("--by", default="", metavar="NAME", help="who is to be noted (default: the system's user)")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        """Requeue what was selected and tell what became of it."""
        selected, missing = _selected(options), _missing(options["ids"])
        for job_id in missing:
            self.stderr.write(f"{job_id}: no dead job has this id")
        if options["dry_run"]:
            self._tell_what_would_be_done(selected, options["limit"])
        else:
            self._requeue(selected, options["limit"], options["by"] or _user())
        if missing:
            sys.exit(_NOT_FOUND)

    def _requeue(self, selected: QuerySet[DeadJob], limit: int | None, by: str) -> None:
        others = list(_others(selected))
        found = changed = 0
        for chunk in _chunks(_requeueable(selected), limit):
            found += len(chunk)
            changed += dead_letters.requeue(chunk, by)
        self.stdout.write(f"{changed} requeued by {by}")
        if found > changed:
            self.stdout.write(f"{found - changed} left alone: somebody else was quicker")
        for line in others:
            self.stdout.write(line)
        if waiting := outbox.waiting_revivals():
            self.stdout.write(f"{waiting} wait in the outbox: a worker pushes them when the server takes them")

    def _tell_what_would_be_done(self, selected: QuerySet[DeadJob], limit: int | None) -> None:
        rows = _requeueable(selected).order_by().values_list("queue", "task", "reason")
        groups = sorted(rows.annotate(number=Count("pk")))
        total = sum(number for *_, number in groups)
        self.stdout.write(f"{total if limit is None else min(total, limit)} would be requeued, of:")
        for queue, task, reason, number in groups:
            self.stdout.write(f"  {number} {queue} {task} ({reason})")
        for line in _others(selected):
            self.stdout.write(line)


def _selected(options: dict[str, Any]) -> QuerySet[DeadJob]:
    wanted = {name: options[name] for name in _FILTERS if options[name] is not None}
    wanted |= {f"died_at__{how}": options[name] for name, how in (("since", "gte"), ("until", "lt")) if options[name]}
    error, ids = options["error"], options["ids"]
    if not (ids or options["all"] or wanted or error):
        raise CommandError("name ids, or filters, or --all: nothing is requeued unasked", returncode=_USAGE)
    if options["limit"] is not None and options["limit"] < 1:
        raise CommandError(f"--limit {options['limit']}: must be 1 or more", returncode=_USAGE)
    rows = database.rows(DeadJob).filter(**wanted)
    if ids:
        rows = rows.filter(job_id__in=ids)
    if error:
        rows = rows.filter(Q(error_class=error) | Q(error_class__endswith=f".{error}") | Q(fingerprint=error))
    return rows


def _requeueable(rows: QuerySet[DeadJob]) -> QuerySet[DeadJob]:
    return rows.filter(state=DeadJob.State.DEAD).exclude(reason=DeadJob.UNREADABLE)


def _chunks(rows: QuerySet[DeadJob], limit: int | None) -> Iterator[list[int]]:
    """Yield primary keys, the oldest first, so few at a time that neither memory nor a transaction grows with them.

    All by one query: what dies again meanwhile is not requeued again.
    """
    pks = rows.order_by("pk").values_list("pk", flat=True)[:limit].iterator(chunk_size=_CHUNK)
    while chunk := list(islice(pks, _CHUNK)):
        yield chunk


def _others(rows: QuerySet[DeadJob]) -> Iterator[str]:
    """Yield why some of what was selected stays as it is."""
    for state in (DeadJob.State.REQUEUED, DeadJob.State.DISCARDED):
        found = rows.filter(state=state)
        if number := found.count():
            latest = found.latest(f"{state.value}_at")
            who, when = getattr(latest, f"{state.value}_by"), getattr(latest, f"{state.value}_at")
            yield f"{number} {state.value} before, the last by {who} at {when:%Y-%m-%d %H:%M:%S}"
    if number := rows.filter(state=DeadJob.State.DEAD, reason=DeadJob.UNREADABLE).count():
        yield f"{number} can't be read: no job can be made of them again"


def _missing(ids: list[str]) -> list[str]:
    known = set(database.rows(DeadJob).filter(job_id__in=ids).values_list("job_id", flat=True)) if ids else set()
    return [job_id for job_id in ids if job_id not in known]


def _instant(text: str) -> datetime:
    try:
        instant, date = parse_datetime(text), parse_date(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r}: {error}") from error
    if date and not instant:
        instant = datetime(date.year, date.month, date.day)
    if instant is None:
        raise ArgumentTypeError(f"{text!r} is no ISO date or time, such as 2026-05-01 or 2026-05-01T12:30")
    if settings.USE_TZ and timezone.is_naive(instant):
        return timezone.make_aware(instant)
    return instant if settings.USE_TZ or timezone.is_naive(instant) else timezone.make_naive(instant)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "emq_requeue"
