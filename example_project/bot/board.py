"""Where each of the latest commands' jobs is right now, read from the queue and from the database."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import TextChoices

from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.row import Done, Row, State, parse
from echomq_django.connection import get_bus
from echomq_django.models import DeadJob
from example_project.bot.models import Command, Crash, Reply, Start
from example_project.bot.tasks import DEPTH

LATEST = 200
SHOWN = 6
ROWS = 10


class Place(TextChoices):
    """Where a job can be; in exactly one of these at every instant."""

    WAITING = "waiting", "Waiting"
    LATER = "later", "Retrying"
    IN_HAND = "in-hand", "In hand"
    DEAD = "dead", "Dead"
    DONE = "done", "Done"


_PLACES = {
    State.SCHEDULED: Place.LATER,
    State.PENDING: Place.WAITING,
    State.SUSPECT: Place.WAITING,
    State.ACTIVE: Place.IN_HAND,
    State.DEAD: Place.DEAD,
}


@dataclass(frozen=True, eq=False)
class Job:
    """One command with all that is known of its job.

    `until` is the end of its lease or of its back-off. `is_orphan` says that the process that holds it was killed.
    """

    command: Command
    row: Row | Done | None
    until: int | None
    now: int
    starts: list[Start]
    reply: Reply | None
    death: DeadJob | None
    is_orphan: bool

    @property
    def live(self) -> Row | None:
        """The row of a job that is not done."""
        return self.row if isinstance(self.row, Row) else None

    @property
    def place(self) -> Place:
        """Where the job is. Without a row it is dead or done, or its command was committed a moment ago."""
        if self.live:
            return _PLACES[self.live.state]
        if self.row is None and self.reply is None:
            return Place.DEAD if self.death else Place.WAITING
        return Place.DONE

    @property
    def pid(self) -> int | None:
        """The process that holds the job; a holder is host:pid:nonce."""
        holder = self.live.holder.split(":") if self.live and self.place == Place.IN_HAND else []
        return int(holder[-2]) if len(holder) > 2 else None

    @property
    def is_running(self) -> bool:
        """Whether the job was started under its lease; one that was claimed ahead waits for its turn."""
        return self.live is not None and self.place == Place.IN_HAND and self.live.started

    @property
    def seconds_left(self) -> float:
        """The seconds until `until`, never negative."""
        return max(0, (self.until or 0) - self.now) / 1000

    @property
    def share_left(self) -> float:
        """How much of the lease is left, from 1 down to 0."""
        return min(1, self.seconds_left * 1000 / self.live.lease_ms) if self.live else 0

    @property
    def step(self) -> int | None:
        """How far the running dig is."""
        return self.starts[-1].step if self.starts and self.is_running and self.starts[-1].step else None

    @property
    def depth(self) -> int:
        """The number of steps of a dig."""
        return DEPTH

    @property
    def record(self) -> Row | DeadJob | None:
        """What counts the failures and stalls of a job that is not done."""
        return self.live or (self.death if self.place == Place.DEAD else None)

    @property
    def attempts(self) -> int:
        """How often the job was claimed, also by a worker that never came to start it; 0 once the queue forgot it."""
        found = self.row or self.record
        return found.attempts if found else 0

    @property
    def trouble(self) -> str:
        """What went wrong so far, in words."""
        if self.place == Place.DEAD and self.death and self.death.error_message:
            return self.death.error_message
        if not self.record:
            return ""
        counts = [(self.record.stalled, "stall"), (self.record.failures, "failure")]
        return ", ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count)


@dataclass(frozen=True)
class Column:
    """The jobs that are in one place; the page has room for the first few."""

    place: Place
    jobs: list[Job]

    @property
    def shown(self) -> list[Job]:
        """The jobs that have room."""
        return self.jobs[:SHOWN]

    @property
    def hidden(self) -> int:
        """How many have no room."""
        return len(self.jobs) - len(self.shown)


@dataclass(frozen=True)
class Board:
    """The latest commands at one instant of the server's clock, in milliseconds, and the latest crash."""

    now: int
    lease: float
    jobs: list[Job]
    crash: Crash | None

    @property
    def columns(self) -> list[Column]:
        """The jobs by place: what still lives in the order of its coming, what has ended in reverse."""
        return [Column(place, self._at(place)) for place in Place]

    @property
    def latest(self) -> list[Job]:
        """The jobs of the latest commands."""
        return self.jobs[:ROWS]

    @property
    def in_hand(self) -> list[Job]:
        """The jobs that workers hold."""
        return self._at(Place.IN_HAND)

    def _at(self, place: Place) -> list[Job]:
        jobs = [job for job in self.jobs if job.place == place]
        return jobs if place in {Place.DEAD, Place.DONE} else jobs[::-1]


def read_board() -> Board:
    """Read the latest commands. The queue comes first: the database knows of a death before the queue forgets it."""
    commands = list(Command.objects.all()[:LATEST])
    ids = [command.job_id for command in commands]
    bus = get_bus()
    now, rows, deadlines = _read_queue(bus.queue("default"), ids)
    starts = _starts(ids)
    replies = Reply.objects.in_bulk(ids, field_name="job_id")
    deaths = {death.job_id: death for death in DeadJob.objects.filter(job_id__in=ids).order_by("died_at")}
    crash = Crash.objects.order_by("id").last()
    jobs = [
        Job(
            command=command,
            row=row,
            until=_until(row, deadline),
            now=now,
            starts=starts[job_id],
            reply=replies.get(job_id),
            death=deaths.get(job_id),
            is_orphan=crash is not None and isinstance(row, Row) and row.attempts == crash.held.get(job_id),
        )
        for job_id, command, row, deadline in zip(ids, commands, rows, deadlines, strict=True)
    ]
    return Board(now, bus.settings.for_queue("default").lease, jobs, crash)


def _read_queue(queue: Queue, ids: Sequence[str]) -> tuple[int, list[Row | Done | None], list[float | None]]:
    """Read the rows and leases of `ids` in one transaction, so that no job is seen in two places."""
    with server_errors("reading the board"), queue.client.pipeline(transaction=True) as pipeline:
        pipeline.time()
        if ids:
            pipeline.mget([queue.keys.job(job_id) for job_id in ids])
            pipeline.zmscore(queue.keys.active, list(ids))
        (seconds, microseconds), *found = pipeline.execute()
    raws, deadlines = found or ([], [])
    rows = [raw and parse(job_id, raw) for job_id, raw in zip(ids, raws, strict=True)]
    return seconds * 1000 + microseconds // 1000, rows, deadlines


def _until(row: Row | Done | None, deadline: float | None) -> int | None:
    if isinstance(row, Row) and row.state is State.SCHEDULED:
        return row.ready_at
    return int(deadline) if deadline else None


def _starts(ids: Iterable[str]) -> dict[str, list[Start]]:
    starts: dict[str, list[Start]] = defaultdict(list)
    for start in Start.objects.filter(job_id__in=list(ids)):
        starts[start.job_id].append(start)
    return starts
