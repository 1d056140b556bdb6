"""What a running handler gets that was made with `takes_context=True`."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.exceptions import BusError
from echomq_django.framework import BaseTaskContext
from echomq_django.results import TaskResult

logger = logging.getLogger(__name__)

_NEWS_S = 1.0  # how often a handler's question for its own cancellation reaches the server


class Reporter(Protocol):
    """Where the news of a running job go, and where the wish to cancel it comes from."""

    def progress(self, done: float, of: float) -> None: ...

    def log(self, line: str) -> None: ...

    def cancelled(self) -> bool: ...


class Nobody:
    """A reporter for jobs that run without a server."""

    def progress(self, done: float, of: float) -> None:
        """Tell nobody."""

    def log(self, line: str) -> None:
        """Tell nobody."""

    def cancelled(self) -> bool:
        """Return False: nobody can ask."""
        return False


class Server:
    """Tells the server. News are worth no failure: what it does not take is logged and forgotten."""

    def __init__(self, queue: Queue, row: Row) -> None:
        self._queue, self._row = queue, row
        self._asked_at, self._cancelled = 0.0, False

    def progress(self, done: float, of: float) -> None:
        """Note how far the job is."""
        self._tell(done=(done, of))

    def log(self, line: str) -> None:
        """Add a line to the job's log."""
        self._tell(line=line)

    def cancelled(self) -> bool:
        """Return whether somebody wants the job to stop, or another has it by now; asked at most once a second."""
        if not self._cancelled and time.monotonic() - self._asked_at >= _NEWS_S:
            self._asked_at = time.monotonic()
            try:
                found = jobs.read(self._queue, self._row.job_id)
                self._cancelled = not isinstance(found, Row) or found.cancelled or found.token != self._row.token
            except BusError as error:
                logger.debug("job %s does not know whether it is cancelled: %s", self._row.job_id, error)
        return self._cancelled

    def _tell(self, **news: Any) -> None:
        try:
            jobs.progress(self._queue, self._row.job_id, self._row.token, **news)
        except BusError as error:
            logger.debug("job %s has news that the server does not take: %s", self._row.job_id, error)


# Frozen as Django's own is; its stubs say otherwise.
@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(BaseTaskContext[Any, Any]):  # type: ignore[misc]
    """Django's context, the proof of holding the job, and its line to the operators.

    `fence` grows with each claim of this job: a write that is guarded by it refuses a holder that lost its lease.
    """

    fence: int
    reporter: Reporter = field(default_factory=Nobody, repr=False, compare=False)

    @property
    def job_id(self) -> str:
        """The id of the job, the same in all its attempts."""
        return self.task_result.id

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: somebody cancelled the job, or another worker has it by now."""
        return self.reporter.cancelled()

    def progress(self, done: float, of: float = 1.0) -> None:
        """Say how far the job is, for its page in the admin."""
        self.reporter.progress(done, of)

    def log(self, line: str) -> None:
        """Add a line to the log of the job; the last 200 are kept for a day."""
        self.reporter.log(line)


def make_context(task_result: TaskResult[Any, Any], row: Row, queue: Queue) -> JobContext:
    """Return the context for running the job of `row`."""
    return JobContext(task_result=task_result, fence=row.token.fence, reporter=Server(queue, row))
