"""What the server says of jobs, as these tests ask it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Done, Row, State
from tests.chaos.waiting import PATIENCE, until


def row(queue: Queue, job_id: str) -> Row:
    """Return the row of a job that must live."""
    found = jobs.read(queue, job_id)
    assert isinstance(found, Row), found
    return found


def is_in(queue: Queue, job_id: str, state: State) -> bool:
    """Return whether a job lives and is in a state."""
    found = jobs.read(queue, job_id)
    return isinstance(found, Row) and found.state is state


def is_done(queue: Queue, job_id: str) -> bool:
    """Return whether a job has completed."""
    return isinstance(jobs.read(queue, job_id), Done)


def done(queue: Queue, *job_ids: str, within: float = PATIENCE) -> list[Done]:
    """Wait until jobs have completed, and return what stays of them."""
    until(lambda: all(is_done(queue, job_id) for job_id in job_ids), within=within)
    return [found for job_id in job_ids if isinstance(found := jobs.read(queue, job_id), Done)]


def active(queue: Queue) -> dict[str, float]:
    """Return the leases of a queue: the end of each in server milliseconds."""
    leases: Any = queue.client.zrange(queue.keys.active, 0, -1, withscores=True)
    return {job_id.decode(): ends_at for job_id, ends_at in leases}


def in_hand(queue: Queue, pids: Iterable[int]) -> list[str]:
    """Return the jobs that are leased to some processes."""
    held = hands(queue)
    return [job_id for pid in pids for job_id in held.get(pid, ())]


def hands(queue: Queue) -> dict[int, set[str]]:
    """Return the jobs that are leased to each process."""
    found: dict[int, set[str]] = defaultdict(set)
    for row in (jobs.read(queue, job_id) for job_id in active(queue)):
        if isinstance(row, Row):
            found[_pid(row.holder)].add(row.job_id)
    return found


def fates(queue: Queue, pid: int) -> dict[str, set[str]]:
    """Return what happened to the jobs that were taken from a process."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, entry in queue.client.xrange(queue.keys.events):
        detail = entry[b"detail"].decode()
        if detail.count(":") == 2 and _pid(detail) == pid:
            found[entry[b"kind"].decode()].add(entry[b"id"].decode())
    return found


def happened(queue: Queue, kind: str) -> Counter[str]:
    """Return to which jobs something has happened, and how often."""
    found = queue.client.xrange(queue.keys.events)
    return Counter(entry[b"id"].decode() for _, entry in found if entry[b"kind"] == kind.encode())


def events(queue: Queue, kind: str, job_id: str) -> int:
    """Return how often something happened to a job."""
    return happened(queue, kind)[job_id]


def stalls(queue: Queue, job_id: str) -> int:
    """Return how often a job was charged with a stall, the last one included."""
    return events(queue, "stalled", job_id) + events(queue, "died", job_id)


def due_at(queue: Queue, job_id: str) -> float:
    """Return the server millisecond at which a scheduled job will be due."""
    due = queue.client.zscore(queue.keys.scheduled, job_id)
    assert due is not None
    return float(due)


def beats(queue: Queue, number: int) -> None:
    """Wait until supervisors have looked after a queue so many times."""
    passes = set()

    def enough() -> bool:
        passes.add(queue.client.hget(queue.keys.meta, "last_pass"))
        return len(passes) > number

    until(enough)


def _pid(holder: str) -> int:
    return int(holder.split(":")[1])
