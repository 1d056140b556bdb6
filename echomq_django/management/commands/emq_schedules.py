"""`manage.py emq_schedules`: shows the periodic jobs, and adds or removes rows of them."""

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q

from echomq_django import schedules
from echomq_django.bus.queue import count
from echomq_django.bus.schedule import last_slots
from echomq_django.conf import did_you_mean
from echomq_django.connection import get_bus
from echomq_django.exceptions import EchoMQError
from echomq_django.slots import instant, slot_of

Facts = Callable[[str, str], tuple[dict[str, str], bool]]

_TITLES = ("NAME", "TASK", "WHEN", "ZONE", "NEXT RUN", "LAST SLOT", "STATE")


class Command(BaseCommand):
    """A schedule is named as in `schedule(name=...)`; the duties are what each worker does by itself, too."""

    help = "Shows the periodic jobs; adds the rows of the duties, for a qcluster; removes these or the named schedules."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("action", choices=["list", "install", "remove"])
        parser.add_argument("names", nargs="*", help="what to remove (default: the duties)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do one of the three."""
        try:
            if options["action"] == "list":
                self._list()
            elif options["action"] == "install":
                self._say("installed", schedules.install())
            else:
                self._say("removed", _remove(options["names"]))
        except EchoMQError as error:
            raise CommandError(str(error)) from error

    def _list(self) -> None:
        facts = cache(_facts)
        lines = [_TITLES, *(_line(row, facts) for row in _ours().order_by("name", "pk"))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            self.stdout.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())

    def _say(self, done: str, names: list[str]) -> None:
        self.stdout.write(f"{done}: {', '.join(names) or 'nothing'}")


def _ours() -> Any:
    return schedules.rows().filter(Q(cluster=schedules.CLUSTER) | Q(func__in=[schedules.FIRE, *schedules.DUTIES]))


def _remove(names: list[str]) -> list[str]:
    known = schedules.rows().filter(func__in=[schedules.FIRE, *schedules.DUTIES])
    found = known.filter(name__in=names) if names else known.filter(func__in=schedules.DUTIES)
    removed = sorted(found.values_list("name", flat=True))
    for name in names:
        if name not in removed:
            raise CommandError(
                f"there is no schedule {name!r}{did_you_mean(name, known.values_list('name', flat=True))}"
            )
    found.delete()
    return removed


def _line(row: Any, facts: Facts) -> tuple[str, ...]:
    now = datetime.now(UTC)
    next_run = f"{instant(row.next_run, now):%Y-%m-%d %H:%M:%SZ}" if row.next_run else "-"
    if row.func in schedules.DUTIES:
        return (row.name or "-", row.func, _when(row), "-", next_run, "-", "for a qcluster")
    try:
        order = schedules.order_of(row)
        slot_of(row, order.zone, now, now)
        last, state = _on_server(order, facts)
    except Exception as error:  # a row may say anything
        return (row.name or "-", row.func, _when(row), "-", next_run, "-", f"broken: {error}")
    state = "paused" if row.repeats == 0 else state
    if row.cluster != schedules.CLUSTER:
        state = f"left to the cluster {row.cluster!r}"
    return (row.name or "-", order.step.task.module_path, _when(row), order.zone.key, next_run, last, state)


def _when(row: Any) -> str:
    if row.schedule_type == row.CRON:
        return str(row.cron)
    if row.schedule_type == row.MINUTES:
        return f"every {row.minutes or 1} min"
    return str(row.get_schedule_type_display())


def _on_server(order: schedules.Order, facts: Facts) -> tuple[str, str]:
    try:
        slots, paused = facts(order.step.task.backend, order.step.task.queue_name)
    except EchoMQError as error:
        return "?", f"its server: {error}"
    last = slots.get(order.name)
    return f"{datetime.fromisoformat(last):%Y-%m-%d %H:%M:%SZ}" if last else "-", "queue paused" if paused else "on"


def _facts(alias: str, queue_name: str) -> tuple[dict[str, str], bool]:
    queue = get_bus(alias).queue(queue_name)
    return last_slots(queue), count(queue).paused is not None
