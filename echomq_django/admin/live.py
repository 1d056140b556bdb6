"""Leases as the admin's own change list wants them: the part of a queryset that it uses, over bounded reads."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

from echomq_django import conf
from echomq_django.bus import reads
from echomq_django.bus.jobs import MAX_ROWS
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.connection import get_bus
from echomq_django.exceptions import EchoMQError
from echomq_django.models import Lease

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Source:
    """One queue of one backend, its server's clock and how many of its leases belong to the list."""

    alias: str
    queue: Queue
    now: int
    count: int


@dataclass(frozen=True)
class LeaseRows:
    """The leases of all queues, one queue after the other, each with the least time left first.

    A server that does not answer adds to `problems` instead of raising: the page shows what there is, and why not more.
    """

    queue: str = ""
    overdue: bool = False
    problems: list[str] = field(default_factory=list)

    ordered = True

    def narrowed(self, *, queue: str | None = None, overdue: bool | None = None) -> "LeaseRows":
        """Return the same with another choice of queue (`alias.queue`) or of overdue leases only."""
        return replace(
            self,
            queue=self.queue if queue is None else queue,
            overdue=self.overdue if overdue is None else overdue,
        )

    def count(self) -> int:
        """Return how many leases belong to the list."""
        return sum(source.count for source in self._sources)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[Lease]:
        return iter(self[0:MAX_ROWS])

    def __getitem__(self, part: slice) -> list[Lease]:
        ranges = defaultdict(list)
        for source, first, last in self._ranges(part.start or 0, min(part.stop, self.count())):
            ranges[source.alias].append((source, first, last))
        return [lease for parts in ranges.values() for lease in self._guarded(partial(_read, parts))]

    def _clone(self) -> list[Lease]:
        """Return the rows of a list that fits on one page; the change list asks for them by this name."""
        return list(self)

    @cached_property
    def _sources(self) -> list[Source]:
        return [source for alias in conf.aliases() for source in self._guarded(partial(self._count, alias))]

    def _count(self, alias: str) -> list[Source]:
        queues = [queue for queue in get_bus(alias).queues() if self.queue in ("", f"{alias}.{queue.name}")]
        if not queues:
            return []
        now = reads.server_ms(queues[0])
        counts = reads.count_leases(queues, now)
        return [
            Source(alias, queue, now, found.overdue if self.overdue else found.total)
            for queue, found in zip(queues, counts, strict=True)
        ]

    def _ranges(self, start: int, stop: int) -> Iterator[tuple[Source, int, int]]:
        """Cut the ranks of the whole list into ranks of each queue, where overdue leases come first."""
        before = 0
        for source in self._sources:
            first, last = max(start - before, 0), min(stop - before, source.count) - 1
            if first <= last:
                yield source, first, last
            before += source.count

    def _guarded(self, read: Callable[[], list[_T]]) -> list[_T]:
        try:
            return read()
        except EchoMQError as error:
            self.problems.append(str(error))
            return []


def key_of(alias: str, queue: str, job_id: str) -> str:
    """Return what `find` finds a job by."""
    return f"{alias}.{queue}.{job_id}"


def find(key: str) -> Lease | None:
    """Return the job behind `key` as it stands now, leased or not; None if it is not live."""
    alias, _, rest = key.partition(".")
    name, _, job_id = rest.rpartition(".")
    queue = get_bus(alias).queue(name)
    now, found = reads.server_ms(queue), reads.lease(queue, job_id)
    return _lease(Source(alias, queue, now, 1), found) if found else None


def _read(ranges: list[tuple[Source, int, int]]) -> list[Lease]:
    sources = {source.queue.name: source for source, _, _ in ranges}
    found = reads.leases([(source.queue, first, last) for source, first, last in ranges])
    return [_lease(sources[leased.queue], leased) for leased in found]


def _lease(source: Source, leased: reads.Leased) -> Lease:
    row = leased.row
    lease = Lease(
        key=key_of(source.alias, source.queue.name, row.job_id),
        job_id=row.job_id,
        task=_task(row),
        backend=source.alias,
        queue=source.queue.name,
        lane=row.lane,
        holder=row.holder,
        fence=row.token.fence,
        attempts=row.attempts,
        stalled=row.stalled,
        held_ms=None if leased.expires_at is None else source.now - row.claimed_at,
        left_ms=None if leased.expires_at is None else leased.expires_at - source.now,
    )
    lease.row = row
    return lease


def _task(row: Row) -> str:
    try:
        return Message.unpack(row.body).task
    except (ValueError, RecursionError):
        return ""
