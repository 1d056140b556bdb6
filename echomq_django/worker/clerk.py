"""The process that says how jobs ended that were killed for their time limit.

It takes the task of a job to know what a failure of it means, and no supervisor ever runs the code of a project.
"""

from collections.abc import Iterable, Sequence

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.worker.board import Running
from echomq_django.worker.consumer import VERBS
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import Ended, Held


def settle(executor: Executor, queues: Sequence[Queue], holder: str, overdue: Iterable[Running]) -> None:
    """End what a dead `holder` ran for too long as failures, and signal it. Raises what the server or a task says."""
    ended = [_tell(executor, queues[one.queue], holder, one) for one in overdue]
    for one in filter(None, ended):
        executor.announce(one)


def _tell(executor: Executor, queue: Queue, holder: str, one: Running) -> Ended | None:
    row = jobs.read(queue, one.job_id)
    if not isinstance(row, Row) or row.holder != holder or row.token.fence != one.fence:
        return None  # it ended in time, or its lease was lost
    ended = executor.time_out(Held(queue, one.queue, row, 0.0, 0.0))
    [verdict] = VERBS[type(ended.end)](queue, holder, [ended.end])
    return ended if verdict is Verdict.ACCEPTED else None
