"""Keeping leases alive from outside the interpreter that runs the jobs, and taking them back when it dies."""

import logging
from collections.abc import Callable, Iterable, Sequence

from echomq_django.bus import jobs, recovery
from echomq_django.bus.queue import Queue
from echomq_django.bus.recovery import Recovered
from echomq_django.worker.board import Running, boottime
from echomq_django.worker.processes import Process

logger = logging.getLogger("echomq_django.worker")

_RENEWALS_PER_LEASE = 3


def renew(process: Process, queues: Sequence[Queue]) -> None:
    """Renew what `process` holds if a third of its shortest lease has passed. Raises `BusUnavailable`."""
    now, lease = boottime(), process.board.shortest_lease
    if not lease:
        process.renewed_at = now
    elif now - process.renewed_at >= lease / _RENEWALS_PER_LEASE:
        for index, queue in enumerate(queues):
            jobs.extend(queue, process.holder, _of_queue(process.board.running(), index))
        process.renewed_at = now


def take_back(process: Process, queues: Sequence[Queue], report: Callable[[Queue, Recovered], None]) -> int:
    """Take back what a dead process held, and return how many jobs that were. Raises `BusUnavailable`.

    A process that was killed on purpose is charged nothing, unless for jobs beyond their limit of which nobody could
    tell the server.
    """
    count, charged = 0, process.overdue if process.forced else list(process.board.running())
    for index, queue in enumerate(queues):
        running = _of_queue(charged, index)
        shared = any(one.queue != index for one in charged)
        recovered = recovery.abandon(queue, process.holder, running, shared=shared)
        report(queue, recovered)
        count += sum(map(len, (recovered.stalled, recovered.died, recovered.suspect, recovered.unstarted)))
    return count


def _of_queue(running: Iterable[Running], index: int) -> list[tuple[str, int]]:
    return [(one.job_id, one.fence) for one in running if one.queue == index]
