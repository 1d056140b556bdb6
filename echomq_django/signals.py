"""What happens to a job beside Django's three task signals, and whether anybody listens to those.

All four are sent robustly with `job_id`, `queue` and `backend` (the alias); `job_dead` also with
`dead_job`, the new row.
"""

from django.dispatch import Signal

from echomq_django.framework import (
    framework_logger,
    log_task_enqueued,
    log_task_finished,
    log_task_started,
    task_enqueued,
    task_finished,
    task_started,
)

job_stalled = Signal()
job_recovered = Signal()
job_dead = Signal()
job_requeued = Signal()

_LOGGERS = {
    task_enqueued: id(log_task_enqueued),
    task_started: id(log_task_started),
    task_finished: id(log_task_finished),
}


def somebody_listens(signal: Signal, level: int) -> bool:
    """Return whether one of Django's task signals has a receiver other than Django's own, which logs at `level`."""
    if framework_logger.isEnabledFor(level):
        return True
    own = _LOGGERS[signal]
    for receiver in signal.receivers:  # noqa: SIM110 any() takes twice as long, and this is asked for each job
        if receiver[0][0] != own:
            return True
    return False
