"""A backend for test suites that runs jobs in the process, without a server."""

import json
import logging
from collections import OrderedDict
from typing import Any

from django.core.checks import CheckMessage, Error

from echomq_django.backend import Batch, JobBackend
from echomq_django.conf import ImproperlyConfiguredQueue, load
from echomq_django.context import JobContext
from echomq_django.framework import (
    TaskResultDoesNotExist,
    task_enqueued,
    task_finished,
    task_started,
)
from echomq_django.results import TaskResult, enqueued, failed, started, succeeded

logger = logging.getLogger(__name__)

_HOLDER = "inline"
_KEPT = 1000

_results: OrderedDict[str, TaskResult[..., Any]] = OrderedDict()


class InlineBackend(JobBackend):
    """Runs each job where it would be pushed: after the COMMIT that it waits for, or at once.

    Settings, arguments, lanes and options are checked as by `EchoMQBackend`, and `run_after` does not delay. A handler
    that raises makes the result FAILED, without retries. The results of the last 1,000 jobs can be read again.
    """

    def deliver(self, batch: Batch, committed: bool) -> None:
        """Run the jobs, one after the other."""
        for result in batch.results or map(batch.result_of, batch.jobs):
            self._run(batch, result)

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

    def _run(self, batch: Batch, result: TaskResult[..., Any]) -> None:
        _keep(result)
        enqueued(result, batch.state)
        task_enqueued.send_robust(type(self), task_result=result)
        started(result, _HOLDER)
        task_started.send_robust(type(self), task_result=result)
        context = [JobContext(task_result=result, fence=1)] if batch.task.takes_context else []
        try:
            value = batch.task.call(*context, *result.args, **result.kwargs)
            succeeded(result, _stored(result, value))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failed(result, error)
            task_finished.send_robust(type(self), task_result=result)  # here its receivers see the exception
        else:
            task_finished.send_robust(type(self), task_result=result)


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
