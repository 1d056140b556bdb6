"""The server is killed and comes back, again and again, while workers consume and a site enqueues."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from echomq_django.bus.queue import Queue
from echomq_django.embedded import Valkey
from echomq_django.exceptions import BusUnavailable
from tests.chaos import ledger, outage_log, seen
from tests.chaos.crew import Crew
from tests.chaos.producer import Producer, all_consume
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits

OUTAGES = 10
SECONDS = 5.0


@pytest.fixture(scope="module")
def valkey(server_directory: Path) -> Iterator[Valkey]:
    """A server of its own that forgets nothing when it is killed."""
    with Valkey(server_directory / "restarts", persist=True) as server:
        yield server


def test_a_server_that_is_killed_ten_times_in_a_row_costs_no_job_and_no_process(
    crew: Crew, queue: Queue, valkey: Valkey
) -> None:
    workers = [crew.start(), crew.start()]
    with Producer() as producer:
        until(lambda: len(ledger.all_pids()) == len(workers))
        before = [worker.pids for worker in workers]
        for outage in range(OUTAGES):
            valkey.kill()
            for worker in workers:
                worker.logged("the server is gone", 2 * (outage + 1))
            producer.is_refused()
            valkey.start()
            all_consume(within=SECONDS)
            until(lambda: all(map(outage_log.is_told_of, workers)), within=SECONDS)
    seen.done(queue, *producer.accepted)

    assert {type(error) for error in producer.refused} == {BusUnavailable}
    assert producer.slowest < SECONDS
    assert ledger.all_starts() | Counter(producer.accepted) == ledger.all_starts()
    assert set(ledger.all_starts().values()) == {1}
    assert [worker.pids for worker in workers] == before
    assert seen.active(queue) == {}
    for worker in workers:
        child, supervisor, *_ = sorted(outage_log.outages(worker).values(), reverse=True)
        assert (child, supervisor) == (OUTAGES, OUTAGES), worker.log
