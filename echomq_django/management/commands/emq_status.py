"""`manage.py emq_status`: how the queues are, for people, for programs, and as an exit code for monitoring."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.checks import WARNING
from django.core.management.base import BaseCommand, CommandError

from echomq_django import conf
from echomq_django.checks import server_problems
from echomq_django.exceptions import InvalidSetting
from echomq_django.models import DeadJob
from echomq_django.status import BackendStatus, Floor, QueueStatus, read_backend, read_floor

_EXCEEDED, _USAGE, _AWAY = 1, 2, 3
_COLUMNS = (
    "pending",
    "oldest",
    "scheduled",
    "next_due",
    "waiting",
    "active",
    "suspect",
    "unmirrored",
    "dead",
    "parked",
)
_TIMES = ("oldest", "next_due")
_BOUNDS = {"pending": "pending jobs", "oldest": "seconds since the oldest pending job became ready"}
_BOUNDS |= {"dead": "dead jobs, mirrored or not", "parked": "jobs parked in the database"}


class Command(BaseCommand):
    """Exit codes: 0 well, 1 a bound is exceeded, 2 usage or configuration, 3 server or database does not answer."""

    help = "Shows how many jobs wait where; with bounds it says by its exit code whether all is well."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--backend", help="alias in TASKS (default: all that are queues)")
        parser.add_argument("--json", action="store_true", help="write one JSON object")
        parser.add_argument("--max-pending", type=int, metavar="N", help="exit 1 if a queue has more pending jobs")
        parser.add_argument("--max-age", type=float, metavar="S", help="exit 1 if one has been pending for longer")
        parser.add_argument("--max-dead", type=int, metavar="N", help="exit 1 if a queue has more dead jobs")
        parser.add_argument("--max-parked", type=int, metavar="N", help="exit 1 if a queue has more parked jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Show the status; exits with what it found."""
        aliases = _aliases(options["backend"])
        floor = read_floor(aliases)
        backends = [read_backend(alias, floor) for alias in aliases]
        bounds = {name: options[f"max_{'age' if name == 'oldest' else name}"] for name in _BOUNDS}
        exceeded = [line for backend in backends for queue in backend.queues for line in _exceeded(queue, bounds)]
        problems = list(filter(None, [floor.problem, *(backend.problem for backend in backends)]))
        if options["json"]:
            self.stdout.write(json.dumps(_to_data(backends, floor, exceeded), indent=2))
        else:
            self.stdout.write("\n".join(_lines(backends, floor)))
        for line in [*problems, *exceeded]:
            self.stderr.write(line)
        if problems or exceeded:
            sys.exit(_AWAY if problems else _EXCEEDED)


def _aliases(chosen: str | None) -> list[str]:
    try:
        aliases = [chosen] if chosen else conf.aliases()
        for alias in aliases:
            conf.load(alias)
    except InvalidSetting as error:
        raise CommandError(str(error), returncode=_USAGE) from error
    if not aliases or (chosen and chosen not in conf.aliases()):
        what = f"TASKS[{chosen!r}] is no queue of this package" if chosen else "TASKS has no queue of this package"
        raise CommandError(f"{what}: its BACKEND is to be echomq_django.backend.EchoMQBackend", returncode=_USAGE)
    return aliases


def _exceeded(queue: QueueStatus, bounds: dict[str, float | None]) -> Iterator[str]:
    for name, most in bounds.items():
        value = getattr(queue, name) or 0
        if name == "dead":
            value += queue.unmirrored
        if most is not None and value > most:
            yield f"{queue.backend}.{queue.queue}: {value:g} {_BOUNDS[name]}, {most:g} allowed"


def _to_data(backends: list[BackendStatus], floor: Floor, exceeded: list[str]) -> dict[str, Any]:
    return {
        "backends": [{**asdict(one), "warnings": list(_warnings(one))} for one in backends],
        "dead_jobs": {state.value: floor.states.get(state, 0) for state in DeadJob.State},
        "database_problem": floor.problem,
        "exceeded": exceeded,
    }


def _lines(backends: list[BackendStatus], floor: Floor) -> Iterator[str]:
    for backend in backends:
        yield f"{backend.backend}: {backend.server or 'no server'} at {backend.address}"
        yield from (f"  warning: {text}" for text in _warnings(backend))
        if backend.queues:
            yield from _table(backend.queues)
        yield ""
    if not floor.problem:
        told = ", ".join(f"{floor.states.get(state, 0)} {state.value}" for state in DeadJob.State)
        parked = sum(number for number, _ in floor.parked.values())
        oldest = f", the oldest for {_span(max(s for _, s in floor.parked.values()))}" if parked else ""
        yield f"database: dead jobs: {told}; parked: {parked}{oldest}"


def _table(queues: list[QueueStatus]) -> Iterator[str]:
    rows = [["queue", *(name.replace("_", " ") for name in _COLUMNS)]]
    rows += [[queue.queue, *(_cell(queue, name) for name in _COLUMNS)] for queue in queues]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    remarks = ["", *("; ".join(_remarks(queue)) for queue in queues)]
    for (name, *cells), remark in zip(rows, remarks, strict=True):
        aligned = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))]
        yield f"  {'  '.join(aligned)}  {remark}".rstrip()


def _cell(queue: QueueStatus, name: str) -> str:
    value = getattr(queue, name)
    if value is None:
        return "-"
    return _span(value) if name in _TIMES else str(value)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _remarks(queue: QueueStatus) -> Iterator[str]:
    if not queue.listed:
        yield "not in QUEUES"
    if queue.paused is not None:
        by, why = queue.paused.get("by"), queue.paused.get("why")
        yield "paused" + (f" by {by}" if by else "") + (f" ({why})" if why else "")
    if queue.concurrency is not None:
        yield f"at most {queue.concurrency} at once"
    if queue.rate is not None:
        yield f"at most {queue.rate}"
    if queue.lanes > 1:
        yield f"{queue.lanes} lanes"
    if queue.lanes_not_counted:
        yield f"pending jobs of {queue.lanes_not_counted} lanes are not counted"
    if queue.held:
        yield f"{queue.held} held by limits or pauses of lanes"
    if queue.forgotten_early:
        yield f"{queue.forgotten_early} results forgotten early"


def _warnings(backend: BackendStatus) -> Iterator[str]:
    if not backend.problem:
        yield from (message.msg for message in server_problems(backend.backend) if message.level >= WARNING)
