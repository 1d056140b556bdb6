"""A claimed job: what its row, its task and its queue say of it, and what became of it."""

from dataclasses import dataclass
from typing import Any

from echomq_django import results
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Row
from echomq_django.conf import QueueSettings, Settings
from echomq_django.middleware import Passage
from echomq_django.payload import decode
from echomq_django.results import TaskResult
from echomq_django.tasks import UNSET, Task, TaskOptions, resolve
from echomq_django.worker.hands import Held


@dataclass(slots=True)
class Job:
    """A row that was made sense of."""

    row: Row
    queue: Queue
    message: Message
    task: Task[..., Any]
    options: TaskOptions
    defaults: QueueSettings
    args: list[Any]
    kwargs: dict[str, Any]
    chain: list[Any]
    value: Any = None
    error: BaseException | None = None

    @property
    def passage(self) -> Passage:
        """What middleware sees of the job."""
        return Passage(self.task, self.args, self.kwargs, self.message.headers, self.row.job_id, self.row.attempts)

    def setting(self, name: str) -> Any:
        """Return what holds for the job: what its task or call says, else what its queue does."""
        value = getattr(self.options, name)
        return getattr(self.defaults, name) if value is UNSET else value

    @property
    def result(self) -> TaskResult[Any, Any]:
        """Django's view of the job while it runs."""
        self.row.started = False  # the result notes the start itself
        result = results.from_row(self.task, self.row, (self.args, self.kwargs))
        results.started(result, self.row.holder)
        return result


def read(held: Held, settings: Settings) -> Job:
    """Make sense of a row; raises `UnresolvableTask`, and whatever a damaged message makes its readers raise."""
    message = Message.unpack(held.row.body)
    task = resolve(message.task)
    args, kwargs = decode(message.payload)
    chain = message.options.pop("chain", [])
    message.options.pop("redact", None)  # the business of those who show jobs
    options, defaults = task.options.merged(message.options), settings.for_queue(held.queue.name)
    return Job(held.row, held.queue, message, task, options, defaults, args, kwargs, chain)
