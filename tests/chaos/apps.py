"""The app of the handlers; the environment of a worker may ask it for receivers of all signals, or for trouble."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import pre_save
from django.dispatch import Signal

PR_SET_PDEATHSIG = 1


class ChaosConfig(AppConfig):
    """Handlers, and receivers that note what they hear in the ledger."""

    name = "tests.chaos"

    def ready(self) -> None:
        """Connect the receivers, some of which fail as receivers do; or make every forked process die at once."""
        if os.environ.get("EMQ_TEST_PARENT") == str(os.getppid()):
            _end_with_parent()
        if os.environ.get("EMQ_TEST_DEATH"):
            pre_save.connect(_die_once, sender="django_q.Schedule")
        if os.environ.get("EMQ_TEST_HANG"):
            from echomq_django.framework import task_finished

            task_finished.connect(_hang_once)
        if os.environ.get("EMQ_TEST_FORKS_DIE"):
            os.register_at_fork(after_in_child=partial(os._exit, 9))
        if number := os.environ.get("EMQ_TEST_TERM_AT_FORK"):
            _stop_at_fork(int(number))
        if os.environ.get("EMQ_TEST_SIGNALS"):
            from echomq_django import signals
            from echomq_django.framework import task_finished, task_started

            for name in ("job_stalled", "job_recovered", "job_dead"):
                _listen(getattr(signals, name), name, _hear)
            _listen(task_started, "task_started", _hear_of_task)
            _listen(task_finished, "task_finished", _hear_of_task)


def _end_with_parent() -> None:
    """Ask the kernel to end this process with a test run that ends without tidying up; only Linux can."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def _stop_at_fork(number: int) -> None:
    """Let the n-th fork of this process be the moment at which it is told to stop."""
    forks = iter(range(1, number + 1))

    def note() -> None:
        if next(forks, 0) == number:
            os.kill(os.getpid(), signal.SIGTERM)

    os.register_at_fork(after_in_parent=note)


def _die_once(**facts: Any) -> None:
    """Die before a schedule is saved, if the file is there that says so."""
    with suppress(FileNotFoundError):
        Path(os.environ["EMQ_TEST_DEATH"]).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def _hang_once(**facts: Any) -> None:
    """Never return to the claiming loop that says how a job ended, if the file is there that says so."""
    with suppress(FileNotFoundError):
        Path(os.environ["EMQ_TEST_HANG"]).unlink()
        time.sleep(600)


def _listen(sent: Signal, name: str, receiver: Any) -> None:
    sent.connect(_fail, weak=False)
    sent.connect(partial(receiver, name), weak=False)


def _fail(**facts: Any) -> None:
    raise LookupError("a receiver that fails")


def _hear(name: str, *, job_id: str, queue: str, backend: str, **facts: Any) -> None:
    from tests.chaos import ledger

    ledger.note_signal(job_id, " ".join([name, queue, backend, *sorted(facts.keys() - {"sender", "signal"})]))


def _hear_of_task(name: str, *, task_result: Any, **facts: Any) -> None:
    from tests.chaos import ledger

    ledger.note_signal(task_result.id, f"{name} {task_result.status.value}")
