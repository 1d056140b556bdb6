"""What the processes of a worker use of the machine, read from /proc."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

CALM = 0.1  # of a core: what idle workers may use


def tree(pid: int) -> list[int]:
    """Return a process and all below it."""
    try:
        children = " ".join(one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/children")).split()
    except FileNotFoundError:
        return []
    return [pid, *(one for child in children for one in tree(int(child)))]


def cpu(pid: int) -> float:
    """Return the seconds of CPU that a worker's processes have used, those that are over included."""
    return sum(map(_ticks, tree(pid))) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11:15]))  # user and system, own and of children that were waited for


def calm_cpu(pid: int, timeout: float = 60.0) -> float:
    """Return `cpu()` once the worker is idle: some work on after the last handler has run."""
    deadline, last = time.monotonic() + timeout, cpu(pid)
    while time.monotonic() < deadline:
        time.sleep(0.25)
        now = cpu(pid)
        if now - last <= 0.25 * CALM:
            return now
        last = now
    raise TimeoutError(f"the worker was still busy {timeout:g} s after its last job")


def drain(
    pid: int, count: int, server_cpu: Callable[[], float], wait: Callable[[], None]
) -> tuple[float, float, float]:
    """Let a frozen worker run `count` jobs, until `wait()` returns.

    Returns jobs a second, and the microseconds of CPU that a job costs the worker and the server.
    """
    own, server, began = cpu(pid), server_cpu(), time.monotonic()
    thaw(pid)
    wait()
    seconds, server = time.monotonic() - began, server_cpu() - server
    return count / seconds, (calm_cpu(pid) - own) / count * 1e6, server / count * 1e6


def memory(pid: int, name: str) -> float:
    """Return the sum of one line of the `smaps_rollup` of a worker's processes, such as Rss or Pss, in MB."""
    lines = [line for one in tree(pid) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def freeze(pid: int) -> None:
    """Stop a worker's processes where they are."""
    for one in tree(pid):
        os.kill(one, signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let go what `freeze()` stopped."""
    for one in tree(pid):
        os.kill(one, signal.SIGCONT)
