"""What the server is to be told of the end of a job."""

import json
import logging
from dataclasses import replace

from echomq_django import exceptions
from echomq_django.bus import jobs
from echomq_django.bus.jobs import Completion, Death, Release, Retry
from echomq_django.bus.row import Done, Row
from echomq_django.exceptions import BusError, UnresolvableTask
from echomq_django.steps import next_job
from echomq_django.tasks import UNSET, TaskOptions
from echomq_django.worker.backoff import Backoff, delay_ms
from echomq_django.worker.failure import describe, log_error
from echomq_django.worker.hands import Held
from echomq_django.worker.job import Job

logger = logging.getLogger("echomq_django.worker")

MAX_RESULT_BYTES = 512 * 1024
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode

_UNKNOWN = "unknown task"
_UNKNOWN_DELAY_MS, _UNKNOWN_MS = 30_000, 3_600_000  # an hour for the deploy that brings the task


def completed(job: Job, alias: str) -> Completion:
    """Return the end of a job that has returned; raises what hinders the step that is to follow it."""
    value = _to_json(job)
    ttl = job.setting("result_ttl")
    # A push that was parked may be said twice: its trace outlives the second time.
    ttl_ms = max(round(ttl * 1000), 3_600_000) if job.row.via_outbox else round(ttl * 1000)
    result = Done.pack_result(job.message.task, job.row.holder, value)
    return Completion(job.row.job_id, job.row.token, ttl_ms, result, _successor(job, value, alias))


def failed(job: Job, error: BaseException) -> Retry | Death:
    """Return the end of a job that has raised: another try, or its death."""
    row, failures, most = job.row, job.row.failures + 1, job.setting("max_failures")
    failure = describe(_reason(error), error)
    what = f"job {row.job_id} ({job.message.task}) failed, {failures} of {most}"
    if failures >= most or not _may_retry(job.options, error):
        log_error(logger, f"{what}: dead", error, failure)
        return Death(row.job_id, row.token, failure)
    after = error.after if isinstance(error, exceptions.Retry) else None
    delay = _delay(job.options, failures) if after is None else max(0, round(after * 1000))
    text = "".join(c if c.isprintable() else " " for c in failure.message[:200])
    logger.warning("%s: %s: %s; again in %.1f s", what, type(error).__name__, text, delay / 1000)
    return Retry(row.job_id, row.token, delay, failure)


def unknown(held: Held, error: UnresolvableTask) -> Release | Death:
    """Return the end of a job whose task is not here: it waits for a worker that knows it, an hour at most."""
    row = held.row
    try:
        stored = jobs.read(held.queue, row.job_id)  # a claim leaves the last failure out
    except BusError:
        return Release(row.job_id, row.token, _UNKNOWN_DELAY_MS)
    before = stored.failure if isinstance(stored, Row) else None
    since = before.since if before and before.reason == _UNKNOWN else row.claimed_at
    if row.claimed_at - since < _UNKNOWN_MS:
        logger.warning("job %s waits for a worker that knows its task: %s", row.job_id, error)
        failure = replace(describe(_UNKNOWN, error), traceback="", since=since)
        return Release(row.job_id, row.token, _UNKNOWN_DELAY_MS, failure)
    logger.error("job %s is dead, nobody knew its task for an hour: %s", row.job_id, error)
    return Death(row.job_id, row.token, describe(_UNKNOWN, error), failures=0)


def _successor(job: Job, value: bytes, alias: str) -> bytes:
    if not job.chain:
        return b""
    value_read = json.loads(value or b"null")
    _, plan, successor = next_job(job.chain, value_read, alias, job.message.headers)
    return successor.parcel(plan.queue)


def _to_json(job: Job) -> bytes:
    """Return the value as JSON, or nothing if it can't be stored: the job has run and must not run again for that."""
    if job.value is None:
        return b"null"
    try:
        value = _encode(job.value).encode()
    except Exception as error:  # a value may raise anything while it is read
        logger.error("job %s (%s): result not stored, it is no JSON: %s", job.row.job_id, job.message.task, error)
        return b""
    if len(value) > MAX_RESULT_BYTES:
        what = f"{len(value):,} bytes, {MAX_RESULT_BYTES:,} are allowed"
        logger.error("job %s (%s): result not stored: %s", job.row.job_id, job.message.task, what)
        return b""
    return value


def _reason(error: BaseException) -> str:
    if isinstance(error, exceptions.TimeLimitExceeded):
        return "timed out"
    return "discarded" if isinstance(error, exceptions.Discard) else "failed"


def _may_retry(options: TaskOptions, error: BaseException) -> bool:
    if isinstance(error, exceptions.Retry):
        return True
    if isinstance(error, exceptions.Discard):
        return False
    if options.give_up_on is not UNSET and isinstance(error, options.give_up_on):
        return False
    return options.retry_on is UNSET or isinstance(error, options.retry_on)


def _delay(options: TaskOptions, failures: int) -> int:
    backoff: Backoff | None = None if options.backoff is UNSET else options.backoff
    try:
        return delay_ms(backoff, failures)
    except Exception:
        logger.exception("backoff %r failed, the default is used", backoff)
        return delay_ms(None, failures)
