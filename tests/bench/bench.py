"""One server, and the project's own code pointed at it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from echomq_django.embedded import Valkey
from tests.bench.workload import ARGUMENTS, OPTIONS, Reports

TIMEOUT = 60.0  # for a worker to start, or to drain what it was given


class Bench:
    """One server, and the project's own code pointed at it; `scale` shrinks the counts of jobs to try the program."""

    def __init__(self, directory: Path, server: Valkey, scale: float) -> None:
        self.client, self.url = redis.Redis.from_url(server.url), server.url
        self.scale = scale
        self.reports = Reports(directory / "reports")
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.bench.settings",
            "EMQ_BENCH_DATABASE": str(directory / "bench.sqlite3"),
            "EMQ_BENCH_REDIS_URL": server.url,
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        from echomq_django.connection import get_bus
        from tests.bench import tasks

        self.tasks, self.queue = tasks, get_bus().queue("default")

    def scaled(self, count: int) -> int:
        """Return how many jobs to take in place of `count`."""
        return max(10, int(count * self.scale))

    def fill(self, count: int, name: str = "nothing") -> None:
        """Enqueue `count` jobs of one task."""
        from echomq_django import enqueue_many

        call: Any = (ARGUMENTS, OPTIONS) if name == "nothing" else ((), {})
        enqueue_many(getattr(self.tasks, name), [call] * count)

    def enqueue(self) -> None:
        """Enqueue one job that does nothing."""
        self.tasks.nothing.enqueue(*ARGUMENTS, **OPTIONS)

    def report(self) -> None:
        """Enqueue a job that reports."""
        self.tasks.report.enqueue(time.time())

    @contextmanager
    def worker(self, *options: str) -> Iterator[int]:
        """Run a worker on an empty server and yield its process id once it has run a job."""
        self.client.flushall()
        command = [sys.executable, "-m", "django", "emq_worker", "--verbosity", "0", *options]
        with subprocess.Popen(command) as process:
            try:
                self.report()
                self.reports.next(TIMEOUT)
                time.sleep(1.0)  # for its other children
                yield process.pid
            finally:
                process.terminate()
                process.wait(TIMEOUT)

    def wait_for_last(self) -> None:
        """Return when the job that reports has run and nothing is left."""
        self.reports.next(TIMEOUT)
        self.wait_until_done()

    def wait_until_done(self) -> None:
        """Return when no job is pending, due or held."""
        deadline = time.monotonic() + TIMEOUT
        while any(self.client.zcard(f"emq:{{default}}:{key}") for key in ("pending", "active", "scheduled")):
            if time.monotonic() > deadline:
                raise TimeoutError("the worker did not drain its queue")
            time.sleep(0.002)

    def server_cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        told: Any = self.client.info("cpu")
        return float(told["used_cpu_user"] + told["used_cpu_sys"])

    def used(self) -> int:
        """Return the bytes that the server's data takes."""
        told: Any = self.client.info("memory")
        return int(told["used_memory_dataset"])
