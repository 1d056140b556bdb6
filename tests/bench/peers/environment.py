"""An environment of its own for each queue, under `.venv/.peers`: what is installed once stays until `make clean`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.origin import ROOT
from tests.bench.peers.catalog import Peer
from tests.bench.workload import ARGUMENTS, OPTIONS

HOME = ROOT / ".venv" / ".peers"


class NotRun(Exception):
    """A queue that is not measured, and why."""


@dataclass(frozen=True)
class Environment:
    """Where the programs of one queue are, and what they are told."""

    peer: Peer
    folder: Path

    @property
    def log(self) -> Path:
        """What worker and driver say."""
        return HOME / f"{self.peer.module}.log"

    def driver(self) -> list[str]:
        """Return the command that enqueues."""
        if self.peer.node:
            return ["node", "tests/bench/peers/driver.cjs", self.peer.module]
        return ["python", "-m", "tests.bench.peers.driver", self.peer.module]

    def variables(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Return the environment variables of worker and driver."""
        return os.environ | {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "NODE_PATH": str(self.folder / "node_modules"),
            "EMQ_BENCH_DATABASE": f"{os.environ['EMQ_BENCH_FOLDER']}/{self.peer.module}.sqlite3",
            "EMQ_BENCH_OPTIONS": json.dumps(options),
            "EMQ_BENCH_ARGUMENTS": json.dumps([ARGUMENTS, OPTIONS]),
        }

    def popen(self, command: list[str], options: Mapping[str, Any], **streams: Any) -> "subprocess.Popen[str]":
        """Start a program in the environment."""
        variables = self.variables(options)
        program = shutil.which(command[0], path=variables["PATH"])
        if program is None:
            raise NotRun(f"{command[0]} is not on this machine")
        with self.log.open("a") as log:
            return subprocess.Popen(
                [program, *command[1:]], cwd=ROOT, env=variables, text=True, stderr=log, **{"stdout": log} | streams
            )


def prepare(peer: Peer) -> Environment:
    """Return the environment of a queue, installed if it is not; raise `NotRun` when that fails."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not peer.packages:  # it is this very environment
        return Environment(peer, Path(sys.prefix))
    environment = Environment(peer, HOME / peer.module)
    stamp = environment.folder / "packages.txt"
    if not stamp.exists() or stamp.read_text() != " ".join(peer.packages):
        print(f"Installing {peer.name}", flush=True)
        _install(environment)
        stamp.write_text(" ".join(peer.packages))
    return environment


def _install(environment: Environment) -> None:
    folder, packages = environment.folder, environment.peer.packages
    shutil.rmtree(folder, ignore_errors=True)
    if environment.peer.node:
        _run(environment, "npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *packages)
    else:
        _run(environment, sys.executable, "-m", "venv", str(folder))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        _run(environment, *pip, *packages)


def _run(environment: Environment, *command: str) -> None:
    if environment.popen(list(command), {}).wait():
        raise NotRun(f"it could not be installed; {environment.log.relative_to(ROOT)} says why")
