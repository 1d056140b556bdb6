"""Enqueues in the environment of one queue, as the lines on stdin say, and answers each with a line of JSON.

`python -m tests.bench.peers.driver MODULE`. The time that enqueuing takes is measured here, beside the calls.
"""

import json
import sys
import time
from importlib import import_module
from importlib.metadata import distributions
from typing import Any

from tests.bench.workload import ARGUMENTS, OPTIONS

RATE = 100  # jobs a second where the delay of each is measured


class Driver:
    """One queue under the verbs of the conversation."""

    def __init__(self, module: str) -> None:
        self.queue = import_module(f"tests.bench.peers.queues.{module}")

    def versions(self, _: int) -> dict[str, str]:
        """Return the versions of what is installed."""
        return {one.metadata["Name"].lower(): one.version for one in distributions()}

    def one(self, count: int) -> float:
        """Enqueue `count` jobs one by one and return the seconds."""
        began = time.perf_counter()
        for _ in range(count):
            self.queue.enqueue(self.queue.nothing, *ARGUMENTS, **OPTIONS)
        return time.perf_counter() - began

    def bulk(self, count: int) -> float | None:
        """Enqueue `count` jobs in bulk and return the seconds, or None where the queue has no such call."""
        if not self.queue.enqueue_bulk:
            return None
        began = time.perf_counter()
        self.queue.enqueue_bulk(count, self.queue.nothing, *ARGUMENTS, **OPTIONS)
        return time.perf_counter() - began

    def report(self, count: int) -> None:
        """Enqueue jobs that report, a hundred a second."""
        due = time.perf_counter()
        for _ in range(count):
            self.queue.enqueue(self.queue.report, time.time())
            due += 1 / RATE
            time.sleep(max(0.0, due - time.perf_counter()))

    def unfinished(self, _: int) -> Any:
        """Return how many jobs the queue itself knows of that are not done."""
        return self.queue.unfinished()


def main() -> None:
    """Answer until stdin ends."""
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        verb, number = line.split()
        print(json.dumps(getattr(driver, verb)(int(number))), flush=True)


if __name__ == "__main__":
    main()
