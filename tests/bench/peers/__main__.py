"""Measure this queue and others side by side: same machine, same server, same jobs, one after another.

Run `make bench-peers`, or with names and options `python -m tests.bench.peers [NAME ...] [--repeats N] [--scale X]`.
It installs each queue into an environment of its own and repeats the whole round, so that a change of the machine's
mood meets all of them. A full run writes `docs/benchmarks`; one of some queues, or of fewer jobs, prints only.
"""

import argparse
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis

from echomq_django.embedded import Valkey
from tests.bench import page
from tests.bench.origin import origin
from tests.bench.peers.catalog import PEERS, Peer
from tests.bench.peers.environment import Environment, NotRun, prepare
from tests.bench.peers.turn import Figures, Turn
from tests.bench.workload import Reports, Silence

Gathered = dict[str, list[float]]


class Run:
    """What was found so far: figures by queue and setting, and the queues that are out with the reason."""

    def __init__(self, peers: Iterable[Peer], scale: float) -> None:
        self.peers = tuple(peers)
        self.scale = scale
        self.environments: dict[str, Environment] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.enqueue: dict[str, Gathered] = {}
        self.work: dict[tuple[str, str], Gathered] = {}
        self.not_run: dict[str, str] = {}

    def install(self) -> None:
        """Prepare all environments before anything is measured."""
        for peer in self.peers:
            try:
                self.environments[peer.name] = prepare(peer)
            except NotRun as reason:
                self.leave_out(peer, reason)

    def round(self, client: redis.Redis, reports: Reports) -> None:
        """Give each queue one turn."""
        for peer in self.peers:
            if peer.name not in self.not_run:
                try:
                    self._turn(peer, client, reports)
                except (NotRun, Silence, TimeoutError) as reason:
                    self.leave_out(peer, reason)

    def _turn(self, peer: Peer, client: redis.Redis, reports: Reports) -> None:
        with Turn(self.environments[peer.name], client, reports, self.scale) as turn:
            self.versions[peer.name] = turn.versions()
            gather(self.enqueue.setdefault(peer.name, {}), turn.enqueue())
            for setting in peer.settings:
                figures = turn.measure(setting)
                gather(self.work.setdefault((peer.name, setting.name), {}), figures)
                print(f"{peer.name}, {setting.name}: {figures['jobs_per_s']:,.0f} jobs/s", flush=True)

    def leave_out(self, peer: Peer, reason: Exception) -> None:
        """Drop a queue from this run and say so."""
        self.not_run[peer.name] = str(reason)
        print(f"NOT RUN: {peer.name}: {reason}", flush=True)

    def results(self) -> dict[str, Any]:
        """Return what goes into the file."""
        return {
            "peers": [self._peer(peer) for peer in self.peers if peer.name not in self.not_run],
            "not_run": self.not_run,
        }

    def _peer(self, peer: Peer) -> dict[str, Any]:
        wanted = {package.partition("[")[0] for package in (peer.packages or (peer.name, "django", "redis"))}
        found = self.versions[peer.name]
        return {
            "name": peer.name,
            "own": not peer.packages,
            "versions": {name: found[name] for name in sorted({*wanted, "node", "redis", "hiredis"} & found.keys())},
            "guarantee": peer.guarantee,
            "logging": peer.logging,
            "enqueue": self.enqueue[peer.name],
            "settings": [
                {
                    "name": setting.name,
                    "command": setting.command,
                    "options": setting.options,
                    "jobs": setting.jobs,
                    "figures": self.work[peer.name, setting.name],
                }
                for setting in peer.settings
            ],
        }


def gather(into: Gathered, figures: Figures) -> None:
    """Append the figures of one turn."""
    for name, value in figures.items():
        into.setdefault(name, []).append(value)


def main() -> None:
    """Measure what is asked for."""
    names = [peer.module for peer in PEERS]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the jobs, to try this program")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    run = Run((peer for peer in PEERS if peer.module in (options.names or names)), options.scale)
    with tempfile.TemporaryDirectory(prefix="emq-bench-") as folder, Valkey(Path(folder) / "valkey") as server:
        os.environ["EMQ_BENCH_REDIS_URL"] = server.url
        os.environ["EMQ_BENCH_FOLDER"] = folder
        reports = Reports(Path(folder) / "reports")
        run.install()
        results: dict[str, Any] = {"origin": origin(server, options.repeats)}
        for _ in range(options.repeats):
            run.round(redis.Redis.from_url(server.url), reports)
    results |= run.results()
    print(page.peers_section(results))
    if not options.names and options.scale == 1:
        page.save("peers", results)


if __name__ == "__main__":
    main()
