"""Kills what the demo started, as a power cut or the kernel would, and remembers what it held."""

import os
import signal
from pathlib import Path

from django.conf import settings

from example_project.bot.board import Job
from example_project.bot.models import Crash

WORKER_FILE = "worker.pid"


def worker_pid() -> int | None:
    """Return the process id of the demo's worker, or None while there is none."""
    if not settings.DEMO_DIRECTORY:
        return None
    try:
        return int(Path(settings.DEMO_DIRECTORY, WORKER_FILE).read_text())
    except FileNotFoundError:
        return None


def kill(in_hand: list[Job], *, whole_worker: bool) -> Crash | None:
    """Kill the process that runs the latest job, or its worker with all processes; None if none of ours runs any."""
    worker = worker_pid()
    ours = [(job, job.pid) for job in reversed(in_hand) if worker and job.pid and _belongs_to(job.pid, worker)]
    child = next((pid for job, pid in ours if job.is_running), None)
    if worker is None or child is None:
        return None
    try:
        os.killpg(worker, signal.SIGKILL) if whole_worker else os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return None
    held = {job.command.job_id: job.live.attempts for job, pid in ours if job.live and (whole_worker or pid == child)}
    return Crash.objects.create(pid=worker if whole_worker else child, whole_worker=whole_worker, held=held)


def _belongs_to(pid: int, worker: int) -> bool:
    """The demo's worker leads a process group of its own: a process outside of it was started by somebody else."""
    try:
        return os.getpgid(pid) == worker
    except ProcessLookupError:
        return False
