"""A backend that runs jobs in the process, without a server."""

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error

from echomq_django.backend import Batch, JobBackend
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.message import Message
from echomq_django.conf import ImproperlyConfiguredQueue, load
from echomq_django.context import JobContext
from echomq_django.framework import (
    TaskResultDoesNotExist,
    task_enqueued,
    task_finished,
    task_started,
)
from echomq_django.middleware import Passage, wrapped
from echomq_django.results import TaskResult, enqueued, failed, started, succeeded
from echomq_django.steps import next_job

logger = logging.getLogger(__name__)

_HOLDER = "inline"
_KEPT = 1000

_results: OrderedDict[str, TaskResult[..., Any]] = OrderedDict()


class InlineBackend(JobBackend):
    """Runs each job where it would be pushed: after the COMMIT that it waits for, or at once.

    Settings, arguments, lanes and options are checked as by `EchoMQBackend`, and `run_after` does not delay. A handler
    that raises makes the result FAILED, without retries, and what waits for that job does not run. The results of the
    last 1,000 jobs can be read again.
    """

    def deliver(self, batch: Batch, committed: bool) -> None:
        """Run the jobs, one after the other."""
        self._run_all(batch)

    def deliver_group(self, batches: Sequence[Batch], committed: bool) -> None:
        """Run the members, and what waits for them if all of them have ended well."""
        waiting = [batch for batch in batches if any("after" in (job.extras or {}) for job in batch.jobs)]
        ended_well = [self._run_all(batch) for batch in batches if batch not in waiting]
        if all(ended_well):
            for batch in waiting:
                self._run_all(batch)

    def cancel(self, job_id: str) -> bool:
        """Return False: a job is over before anybody could ask."""
        return False

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Return the result of one of the last 1,000 jobs of this process."""
        try:
            return _results[result_id]
        except KeyError:
            raise TaskResultDoesNotExist(f"{result_id}: no such job was run here") from None

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return what is wrong with the settings of this alias."""
        try:
            load(self.alias)
        except ImproperlyConfiguredQueue as error:
            return [Error(str(error), id="echomq_django.E001")]
        return []

    def _run_all(self, batch: Batch) -> bool:
        results = batch.results or map(batch.result_of, batch.jobs)
        ended_well = [self._run(batch, job, result) for job, result in zip(batch.jobs, results, strict=True)]
        return all(ended_well)

    def _run(self, batch: Batch, job: NewJob, result: TaskResult[..., Any]) -> bool:
        """Run a job and what follows it in its chain; True if the job has ended well."""
        message = Message.unpack(job.body)
        _keep(result)
        enqueued(result, batch.state)
        task_enqueued.send_robust(type(self), task_result=result)
        started(result, _HOLDER)
        task_started.send_robust(type(self), task_result=result)
        context = [JobContext(task_result=result, fence=1)] if batch.task.takes_context else []
        passage = Passage(batch.task, result.args, result.kwargs, message.headers, result.id, 1)
        try:
            value = wrapped(self.alias, passage, lambda: batch.task.call(*context, *result.args, **result.kwargs))
            succeeded(result, _stored(result, value))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed(result, error)
            task_finished.send_robust(type(self), task_result=result)  # here its receivers see the exception
            return False
        task_finished.send_robust(type(self), task_result=result)
        if chain := message.options.get("chain"):
            task, plan, successor = next_job(chain, result.return_value, self.alias, message.headers)
            self._run_all(Batch(task, plan, [successor], []))
        return True


def _stored(result: TaskResult[..., Any], value: Any) -> Any:
    """Return `value` as a worker stores it: a job that has run is done, whatever it returns."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        logger.error("job %s (%s): result not stored, it is no JSON: %s", result.id, result.task.module_path, error)
        return None


def _keep(result: TaskResult[..., Any]) -> None:
    _results[result.id] = result
    while len(_results) > _KEPT:
        _results.popitem(last=False)
