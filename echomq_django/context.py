"""What a running handler gets that was made with `takes_context=True`."""

from dataclasses import dataclass
from typing import Any

from echomq_django.bus.row import Row
from echomq_django.framework import BaseTaskContext
from echomq_django.results import TaskResult


# Frozen as Django's own is; its stubs say otherwise.
@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(BaseTaskContext[Any, Any]):  # type: ignore[misc]
    """Django's context, and the proof of holding the job.

    `fence` grows with each claim of this job: a write that is guarded by it refuses a holder that lost its lease.
    """

    fence: int

    @property
    def job_id(self) -> str:
        """The id of the job, the same in all its attempts."""
        return self.task_result.id


def make_context(task_result: TaskResult[Any, Any], row: Row) -> JobContext:
    """Return the context for running the job of `row`."""
    return JobContext(task_result=task_result, fence=row.token.fence)
