"""Measure what a claim costs the server with few jobs and with a million, and with one lane and with ten thousand.

Run `python -m tests.bench.lanes`: it starts its own servers and prints Markdown tables, or with `--json` one object.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import redis

from echomq_django.bus import jobs, limits
from echomq_django.bus.queue import Queue
from tests.bench.rows import binaries, server
from tests.bus import scenes
from tests.bus.crowd import crowded

FEW: Final = 100
MILLION: Final = 1_000_000
SCHEDULED: Final = 100_000
LANES: Final = 10_000
BATCHES: Final = (1, 50)
ROUNDS: Final = 25
CLAIMED: Final = 50  # jobs a round, which then go back to where they were

Figures = dict[str, float]


def claim_us(queue: Queue, batch: int) -> float:
    """Return the server's µs in scripts for each job of `CLAIMED` that are claimed `batch` at a time."""
    queue.client.config_resetstat()
    rows = [row for _ in range(CLAIMED // batch) for row in jobs.claim(queue, scenes.W1, scenes.nonce(), batch)]
    spent = float(queue.client.info("commandstats")["cmdstat_evalsha"]["usec"])
    assert len(rows) == CLAIMED, f"{len(rows)} of {CLAIMED} jobs claimed"
    jobs.release(queue, scenes.W1, [scenes.release(row) for row in rows])
    return spent / CLAIMED


def one_lane(client: redis.Redis, number: int) -> Queue:
    """Return a queue with `number` jobs in one lane."""
    queue = Queue(client, "bench", f"pending-{number}")
    crowded(queue, number)
    return queue


def much_scheduled(client: redis.Redis) -> Queue:
    """Return a queue with few jobs in one lane, and many that wait for their time."""
    queue = Queue(client, "bench", "scheduled")
    jobs.enqueue(queue, [scenes.new_job(queue, delay_ms=86_400_000) for _ in range(SCHEDULED)])
    crowded(queue, FEW)
    return queue


def many_lanes(client: redis.Redis, number: int, *, weighted: bool = False) -> Queue:
    """Return a queue with `number` lanes that have a few jobs each, or half of them twice the weight of the others."""
    queue = Queue(client, "bench", f"lanes-{number}{'-weighted' * weighted}")
    each = max(2, FEW // number)
    jobs.enqueue(queue, [scenes.new_job(queue, lane=f"lane-{at % number}") for at in range(number * each)])
    for at in range(0, number if weighted else 0, 2):
        limits.set(queue, lane=f"lane-{at}", weight=2)
    return queue


def measure(binary: str) -> Figures:
    """Return the µs of script for each job in the fastest round, by queue and batch: the others met company."""
    with server(binary, append=False) as client:
        queues = {
            "100 pending, 1 lane": one_lane(client, FEW),
            "1,000,000 pending, 1 lane": one_lane(client, MILLION),
            "100 pending, 100,000 scheduled": much_scheduled(client),
            "100 lanes": many_lanes(client, FEW),
            "10,000 lanes": many_lanes(client, LANES),
            "10,000 lanes, half of them of weight 2": many_lanes(client, LANES, weighted=True),
        }
        rounds: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, queue in queues.items():
                for batch in BATCHES:
                    rounds.setdefault(f"{name}; {batch} a claim", []).append(claim_us(queue, batch))
    return {name: min(spent) for name, spent in rounds.items()}


def ratios(figures: Figures) -> Figures:
    """Return each figure as a multiple of that of the first queue at the same batch."""
    base: Figures = {}
    return {name: spent / base.setdefault(name.split("; ")[1], spent) for name, spent in figures.items()}


def table(figures: Figures) -> str:
    """Return the figures as Markdown, each beside its ratio to the first queue at the same batch."""
    lines = ["| queue | claim | µs a job | ratio |", "|---|---|---|---|"]
    for name, ratio in ratios(figures).items():
        queue, claim = name.split("; ")
        lines.append(f"| {queue} | {claim} | {figures[name]:.1f} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Print one table for each server, or all figures as JSON."""
    results = {name: measure(binary) for name, binary in binaries().items()}
    if "--json" in sys.argv:
        print(json.dumps(results, indent=2))
        return
    for name, figures in results.items():
        version = subprocess.run([binaries()[name], "--version"], capture_output=True, text=True, check=True).stdout
        print(f"\n{name}: {version.strip()}\n\n{table(figures)}", flush=True)


if __name__ == "__main__":
    main()
