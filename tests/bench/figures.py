"""Measure this queue: how fast it drains and enqueues, what a job costs worker and server, how soon it starts.

Run `make bench`, or with names and options `python -m tests.bench.figures [NAME ...] [--repeats N] [--scale X]`. It
starts its own server and workers and prints medians and ranges; a full run also writes `docs/benchmarks`. CPU is user
and system time of all processes of the worker.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Completion
from echomq_django.bus.row import Done
from echomq_django.embedded import Valkey
from echomq_django.embedded.programs import bundled_valkey
from tests.bench import lanes, limits, page, processes
from tests.bench.bench import TIMEOUT, Bench
from tests.bench.origin import origin

DAY_MS = 86_400_000
IDLE = 10.0  # seconds for which an idle worker is watched

Figures = dict[str, float]


def drained(bench: Bench, jobs: int, name: str, *options: str) -> Figures:
    """Return the rate at which a worker drains `jobs`, and what they cost both sides.

    The worker is ready and frozen while the queue is filled. Its last job reports, so that nobody asks while it works.
    """
    count = bench.scaled(jobs)
    with bench.worker(*options) as pid:
        processes.freeze(pid)
        bench.fill(count - 1, name)
        bench.report()
        names = ("jobs/s", "worker CPU, µs a job", "server CPU, µs a job")
        return dict(zip(names, processes.drain(pid, count, bench.server_cpu, bench.wait_for_last), strict=True))


def drain(bench: Bench) -> Figures:
    """One child, no-op handler."""
    return drained(bench, 30_000, "nothing", "--processes", "1")


def drain_two(bench: Bench) -> Figures:
    """Two children, no-op handler."""
    return drained(bench, 30_000, "nothing", "--processes", "2")


def threads(bench: Bench) -> Figures:
    """Handlers of 10 ms, 100 threads of one child."""
    return drained(bench, 10_000, "sleep", "--processes", "1", "--threads", "100")


def coroutines(bench: Bench) -> Figures:
    """Coroutines of 10 ms, 100 at once in one child."""
    found = drained(bench, 10_000, "sleep_async", "--processes", "1", "--threads", "100")
    return found | {"an event loop alone, jobs/s": limits.loop_alone(bench.tasks.sleep_async.func, 10_000, 100)}


def enqueue(bench: Bench) -> Figures:
    """Enqueue from one process."""
    bench.client.flushall()
    bench.enqueue()
    singles, many = bench.scaled(5_000), bench.scaled(20_000)
    began, busy = time.monotonic(), time.process_time()
    for _ in range(singles):
        bench.enqueue()
    seconds, busy = time.monotonic() - began, time.process_time() - busy
    began = time.monotonic()
    bench.fill(many)
    bulk = many / (time.monotonic() - began)
    server = limits.server_alone(bench.queue, bench.url, singles, bench.enqueue)
    django = limits.django_alone(bench.tasks.nothing, singles)
    return {
        "one by one, jobs/s": singles / seconds,
        "one by one, CPU, µs a job": busy / singles * 1e6,
        "one by one, the server alone": server,
        "one by one, Django alone": django,
        "one by one, both in turn": 1 / (1 / server + 1 / django),
        "in bulk, jobs/s": bulk,
    }


def latency(bench: Bench) -> Figures:
    """From the call of `enqueue()` to the start of the handler, at 100 jobs a second."""
    found = []
    with bench.worker("--processes", "1"):
        due = time.monotonic()
        for _ in range(bench.scaled(300)):
            bench.report()
            found.append(bench.reports.next(TIMEOUT) * 1000)
            due += 0.01
            time.sleep(max(0.0, due - time.monotonic()))
    found.sort()
    return {"p50, ms": statistics.median(found), "p99, ms": found[int(len(found) * 0.99)]}


def scripts(bench: Bench) -> Figures:
    """What claiming and completing costs the server, by jobs in a batch."""
    return {f"{batch} in a batch, server CPU, µs a job": batches(bench, batch) for batch in (1, 8, 50)}


def batches(bench: Bench, batch: int) -> float:
    """Return what the server uses for each job of a queue that is claimed and completed so many at a time."""
    bench.client.flushall()
    count = bench.scaled(5_000)
    bench.fill(count)
    before, done = bench.server_cpu(), 0
    while rows := jobs.claim(bench.queue, "bench", jobs.new_nonce(), batch):
        result = Done.pack_result(bench.tasks.nothing.module_path, "bench", b"null")
        jobs.complete(bench.queue, "bench", [Completion(row.job_id, row.token, DAY_MS, result) for row in rows])
        done += len(rows)
    if done != count:
        raise AssertionError(f"{done} of {count} jobs were claimed")
    return (bench.server_cpu() - before) / count * 1e6


def growth(bench: Bench) -> Figures:
    """What a claim costs the server, as a multiple of one from a queue of 100 jobs in one lane."""
    ratios = lanes.ratios(lanes.measure(bundled_valkey()))
    return {name: ratio for name, ratio in ratios.items() if ratio != 1}


def memory(bench: Bench) -> Figures:
    """What the server keeps of a job."""
    count = bench.scaled(30_000)
    with bench.worker("--processes", "1") as pid:
        empty = bench.used()
        processes.freeze(pid)
        bench.fill(count)
        full = bench.used()
        processes.thaw(pid)
        bench.wait_until_done()
        return {"pending, bytes": (full - empty) / count, "done, bytes": (bench.used() - empty) / count}


def idle(bench: Bench) -> Figures:
    """One child with nothing to do."""
    with bench.worker("--processes", "1") as pid:
        return commands(bench) | {
            "RSS, MB": processes.memory(pid, "Rss"),
            "PSS, MB": processes.memory(pid, "Pss"),
        }


def idle_fifty(bench: Bench) -> Figures:
    """One child with nothing to do on 50 queues."""
    with bench.worker("--processes", "1", "--backend", "fifty"):
        return commands(bench)


def commands(bench: Bench) -> Figures:
    """Return what an idle worker asks of the server; `commands` are those inside scripts too."""
    time.sleep(1.0)
    bench.client.config_resetstat()
    time.sleep(IDLE)
    told: Any = bench.client.info("stats")
    return {
        "round trips/s": told["total_reads_processed"] / IDLE,
        "commands/s": told["total_commands_processed"] / IDLE,
    }


MEASUREMENTS = (
    *(drain, drain_two, scripts, enqueue, latency, threads, coroutines),
    *(memory, growth, idle, idle_fifty),
)
ALL: dict[str, Callable[[Bench], Figures]] = {one.__name__: one for one in MEASUREMENTS}


def measured(bench: Bench, name: str, repeats: int) -> dict[str, Any]:
    """Return what one measurement found in all repeats, and print it."""
    found = [ALL[name](bench) for _ in range(repeats)]
    result = {"about": ALL[name].__doc__, "values": {key: [one[key] for one in found] for key in found[0]}}
    print(f"\n{name}: {result['about']}")
    for key, values in result["values"].items():
        middle, spread = page.number(values)
        print(f"  {key:<28} {middle:>10}   ({spread})", flush=True)
    return result


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the jobs, to try this program")
    options = parser.parse_args()
    if unknown := set(options.names) - ALL.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    with tempfile.TemporaryDirectory(prefix="emq-bench-") as directory, Valkey(Path(directory) / "valkey") as server:
        results: dict[str, Any] = {"origin": origin(server, options.repeats)}
        bench = Bench(Path(directory), server, options.scale)
        results["figures"] = [measured(bench, name, options.repeats) for name in options.names or ALL]
    if not options.names and options.scale == 1:
        from django.conf import settings

        page.save("own", results | {"logging": settings.LOGGING})


if __name__ == "__main__":
    main()
