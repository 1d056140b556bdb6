"""One turn of one queue: enqueue, then for each setting drain and delay.

A drain begins with a full queue and a worker that is ready: the worker runs a job, is frozen (SIGSTOP) while the queue
is filled, and let go. It is over when the last job has reported and the queue itself knows of no job that is not done.
No handler but the last has more to do than nothing, so counting costs no queue anything.
"""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import redis

from tests.bench import processes
from tests.bench.origin import ROOT
from tests.bench.peers.catalog import Setting
from tests.bench.peers.environment import Environment, NotRun
from tests.bench.workload import Reports

START_TIMEOUT = 60.0
DRAIN_TIMEOUT = 300.0
STOP_TIMEOUT = 30.0
DELAYS = 300  # jobs whose delay is measured

Figures = dict[str, float]


class Turn:
    """A queue on an empty server; `scale` shrinks the counts of jobs to try the program."""

    def __init__(self, environment: Environment, client: redis.Redis, reports: Reports, scale: float) -> None:
        self.environment = environment
        self.client = client
        self.reports = reports
        self.scale = scale
        client.flushall()
        reports.clear()
        self.driver = environment.popen(
            environment.driver(), {}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
        )

    def __enter__(self) -> "Turn":
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.kill()
        self.driver.communicate()

    def ask(self, verb: str, number: int = 0) -> Any:
        """Have the driver do something in the queue's environment."""
        with suppress(BrokenPipeError):  # no answer then either
            self.driver.stdin.write(f"{verb} {number}\n")
        answer = self.driver.stdout.readline()
        if not answer:
            raise NotRun(f"its driver died at {verb!r}; {self.environment.log.relative_to(ROOT)} says why")
        return json.loads(answer)

    def versions(self) -> dict[str, str]:
        """Return the versions of what is installed for the queue."""
        found: dict[str, str] = self.ask("versions")
        return found

    def enqueue(self) -> Figures:
        """Return the rates of enqueuing, one by one and in bulk, with no worker at work."""
        self.ask("one", 10)  # connects, and loads what it needs
        figures = {"one_per_s": self._rate("one", 3_000)}
        if self.ask("bulk", 10) is not None:
            figures["bulk_per_s"] = self._rate("bulk", 10_000)
        self.client.flushall()
        return figures

    def _rate(self, verb: str, count: int) -> float:
        scaled = self.scaled(count)
        return scaled / float(self.ask(verb, scaled))

    def scaled(self, count: int) -> int:
        """Return how many jobs to take in place of `count`."""
        return max(10, int(count * self.scale))

    def measure(self, setting: Setting) -> Figures:
        """Return what a worker in one setting does."""
        with self.worker(setting) as pid:
            return self.drain(pid, self.scaled(setting.jobs)) | self.delays(self.scaled(DELAYS))

    @contextmanager
    def worker(self, setting: Setting) -> Iterator[int]:
        """Run a worker and yield its process id once it has run a job."""
        self.client.flushall()
        process = self.environment.popen(os.path.expandvars(setting.command).split(), setting.options)
        try:
            self.ask("report", 1)
            self.reports.next(START_TIMEOUT)
            time.sleep(1.5)  # for its other processes
            yield process.pid
        finally:
            stop(process)

    def drain(self, pid: int, count: int) -> Figures:
        """Return the rate at which the worker drains `count` jobs, and what a job costs both sides."""
        self.fill(pid, count)
        names = ("jobs_per_s", "worker_us", "server_us")
        return dict(zip(names, processes.drain(pid, count, self.server_cpu, self.wait_for_last), strict=True))

    def fill(self, pid: int, count: int) -> None:
        """Enqueue `count` jobs, of which the last one reports, behind the back of a frozen worker."""
        processes.freeze(pid)
        if self.ask("bulk", count - 1) is None:
            self.ask("one", count - 1)
        self.ask("report", 1)

    def wait_for_last(self) -> None:
        """Return when the job that reports has run and the queue knows of no job that is not done."""
        self.reports.next(DRAIN_TIMEOUT)
        deadline = time.monotonic() + START_TIMEOUT
        while left := self.ask("unfinished"):
            if time.monotonic() > deadline:
                raise NotRun(f"{left} jobs are not done though the last one has run")
            time.sleep(0.002)

    def delays(self, count: int) -> Figures:
        """Return how long it takes from the call that enqueues to the start of the handler, at 100 jobs a second."""
        self.ask("report", count)
        found = sorted(self.reports.next(START_TIMEOUT) * 1000 for _ in range(count))
        return {"p50_ms": statistics.median(found), "p99_ms": found[int(len(found) * 0.99)]}

    def server_cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        told: Any = self.client.info("cpu")
        return float(told["used_cpu_user"] + told["used_cpu_sys"])


def stop(process: "subprocess.Popen[str]") -> None:
    """Stop a worker as a deploy does, and kill what is left of it."""
    left = processes.tree(process.pid)
    processes.thaw(process.pid)
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
