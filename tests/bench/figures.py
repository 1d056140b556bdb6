"""Measure this queue: how fast it drains and enqueues, what a job costs worker and server, how soon it starts.

Run `make bench` (or `python -m tests.bench.figures [NAME ...] [--json FILE]`): it starts its own server and workers,
repeats each figure three times and prints medians. CPU is user and system time of all processes of the worker.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from echomq_django.embedded import Valkey

REPEATS = 3
ARGUMENTS = {"template": "receipt", "retry": None, "currency": "EUR", "total": "129.9", "order": 9912873}
JOBS = 30_000

Figures = dict[str, float]


class Bench:
    """One server, and the project's own code pointed at it."""

    def __init__(self, directory: Path, server: Valkey) -> None:
        self.server = server
        self.client = redis.Redis.from_url(server.url)
        reading, self._report = os.pipe()
        os.set_inheritable(self._report, True)
        self.delays = os.fdopen(reading)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "tests.bench.settings",
            "EMQ_BENCH_DATABASE": str(directory / "bench.sqlite3"),
            "EMQ_BENCH_REDIS_URL": server.url,
            "EMQ_BENCH_REPORT": str(self._report),
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def fresh(self) -> None:
        """Empty the server."""
        self.client.flushall()

    def fill(self, count: int, name: str = "nothing") -> None:
        """Enqueue `count` jobs of one task."""
        from echomq_django import enqueue_many
        from tests.bench import tasks

        call: Any = ((48121, "de-DE"), ARGUMENTS) if name == "nothing" else ((), {})
        enqueue_many(getattr(tasks, name), [call] * count)

    @contextmanager
    def worker(self, *options: str) -> Iterator[int]:
        """Run a worker and yield its process id once it serves."""
        command = [sys.executable, "-m", "django", "emq_worker", "--verbosity", "1", *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, pass_fds=[self._report], text=True) as process:
            assert process.stderr
            for line in process.stderr:
                if "connected to" in line:
                    break
            try:
                yield process.pid
            finally:
                process.terminate()
                process.communicate(timeout=60)

    def pending(self) -> int:
        """Return how many jobs are not done."""
        pending, active, due = (
            self.client.zcard(f"emq:{{default}}:{key}") for key in ("pending", "active", "scheduled")
        )
        return pending + active + due

    def server_cpu(self) -> float:
        """Return the seconds of CPU that the server has used."""
        told: Any = self.client.info("cpu")
        return float(told["used_cpu_user"] + told["used_cpu_sys"])


def tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in tree(int(child)))]


def cpu(pid: int) -> float:
    """Return the seconds of CPU that a worker's processes have used."""
    ticks = 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def drained(bench: Bench, count: int, name: str, *options: str) -> Figures:
    """Return the rate at which a worker drains `count` jobs, and what they cost both sides."""
    bench.fresh()
    with bench.worker(*options) as pid:
        time.sleep(1.0)
        before, before_server = cpu(pid), bench.server_cpu()
        bench.client.config_set("timeout", 0)
        pause(bench, True)
        bench.fill(count, name)
        before, before_server, began = cpu(pid), bench.server_cpu(), time.monotonic()
        pause(bench, False)
        while bench.pending():
            time.sleep(0.005)
        seconds = time.monotonic() - began
        return {
            "jobs_per_s": count / seconds,
            "worker_us_per_job": (cpu(pid) - before) / count * 1e6,
            "server_us_per_job": (bench.server_cpu() - before_server) / count * 1e6,
        }


def pause(bench: Bench, on: bool) -> None:
    """Pause or resume the queue, so that a full queue meets a worker that is ready."""
    from echomq_django.bus import limits
    from echomq_django.connection import get_bus

    queue = get_bus().queue("default")
    if on:
        limits.pause(queue, by="bench")
    else:
        limits.resume(queue)


def drain(bench: Bench) -> Figures:
    """One child, no-op handler."""
    return drained(bench, JOBS, "nothing", "--processes", "1")


def drain_two(bench: Bench) -> Figures:
    """Two children, no-op handler."""
    return drained(bench, JOBS, "nothing", "--processes", "2")


def threads(bench: Bench) -> Figures:
    """Handlers of 10 ms, 100 threads of one child."""
    return drained(bench, 10_000, "sleep", "--processes", "1", "--threads", "100")


def coroutines(bench: Bench) -> Figures:
    """Coroutines of 10 ms, 100 at once in one child."""
    return drained(bench, 10_000, "sleep_async", "--processes", "1", "--threads", "100")


def enqueue(bench: Bench) -> Figures:
    """One by one, and in bulk."""
    from tests.bench import tasks

    bench.fresh()
    tasks.nothing.enqueue(48121, "de-DE", **ARGUMENTS)
    began, busy = time.monotonic(), time.process_time()
    for _ in range(5_000):
        tasks.nothing.enqueue(48121, "de-DE", **ARGUMENTS)
    one, cpu_one = time.monotonic() - began, time.process_time() - busy
    began = time.monotonic()
    bench.fill(20_000)
    return {
        "one_per_s": 5_000 / one,
        "one_us_cpu": cpu_one / 5_000 * 1e6,
        "bulk_per_s": 20_000 / (time.monotonic() - began),
    }


def latency(bench: Bench) -> Figures:
    """From the call of `enqueue()` to the start of the handler, at 100 jobs a second."""
    from tests.bench import tasks

    bench.fresh()
    with bench.worker("--processes", "1"):
        time.sleep(1.0)
        found = []
        for _ in range(300):
            tasks.note_delay.enqueue(time.time())
            found.append(float(bench.delays.readline()))
            time.sleep(0.01)
    found.sort()
    return {"p50_ms": statistics.median(found) * 1000, "p99_ms": found[int(len(found) * 0.99)] * 1000}


def memory(bench: Bench) -> Figures:
    """What the server needs for a pending job and for a done one."""
    bench.fresh()
    empty = used(bench)
    bench.fill(JOBS)
    full = used(bench)
    with bench.worker("--processes", "1"):
        while bench.pending():
            time.sleep(0.05)
    return {"pending_bytes": (full - empty) / JOBS, "done_bytes": (used(bench) - empty) / JOBS}


def used(bench: Bench) -> int:
    """Return the bytes that the server's data takes."""
    told: Any = bench.client.info("memory")
    return int(told["used_memory_dataset"])


def idle(bench: Bench) -> Figures:
    """What a worker with one child asks of the server while nothing is to be done, and how much memory it takes."""
    bench.fresh()
    with bench.worker("--processes", "1") as pid:
        time.sleep(2.0)
        bench.client.config_resetstat()
        time.sleep(10.0)
        commands: Any = bench.client.info("commandstats")
        called = sum(one["calls"] for name, one in commands.items() if not name.startswith("cmdstat_info"))
        sizes = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in tree(pid)]
    return {"commands_per_s": called / 10, "rss_mb": total(sizes, "Rss"), "pss_mb": total(sizes, "Pss")}


def total(sizes: list[str], name: str) -> float:
    """Return the sum of one line of several `smaps_rollup`, in MB."""
    return (
        sum(int(line.split()[1]) for text in sizes for line in text.splitlines() if line.startswith(f"{name}:")) / 1024
    )


ALL: dict[str, Callable[[Bench], Figures]] = {
    one.__name__: one for one in (drain, drain_two, enqueue, latency, threads, coroutines, memory, idle)
}


def main() -> None:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if unknown := set(options.names) - ALL.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="emq-bench-") as directory, Valkey(Path(directory) / "valkey") as server:
        bench = Bench(Path(directory), server)
        medians = {name: measured(bench, ALL[name], options.repeats) for name in options.names or ALL}
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")


def measured(bench: Bench, figure: Callable[[Bench], Figures], repeats: int) -> Figures:
    """Return the medians of a figure and print them with the range of the repeats."""
    found = [figure(bench) for _ in range(repeats)]
    print(f"\n{figure.__name__}: {figure.__doc__}")
    medians = {}
    for name in found[0]:
        values = sorted(one[name] for one in found)
        medians[name] = statistics.median(values)
        print(f"  {name:<20} {medians[name]:>12,.1f}   ({values[0]:,.1f} to {values[-1]:,.1f})")
    sys.stdout.flush()
    return medians


if __name__ == "__main__":
    main()
