"""One crowded lane beside lanes that get a job now and then, served by four workers at once.

The crowd is 200,000 jobs, or a million where EMQ_MACHINE asks for long tests, as in the benchmark `lanes`.
"""

import os
import time
from bisect import bisect
from collections import Counter
from dataclasses import dataclass, field
from threading import Event, Thread

import pytest
import redis

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.bus.recovery import recover
from echomq_django.bus.row import Row
from echomq_django.bus.schedule import promote
from tests.bus import scenes
from tests.bus.crowd import crowded

CROWD = 200_000 if os.environ.get("EMQ_MACHINE", "quick") == "quick" else 1_000_000
SMALL, ROUNDS = "bcde", 100


@pytest.fixture
def server(valkey, tmp_path):
    with type(valkey)(tmp_path) as server:
        yield server


@pytest.fixture
def queue(server, prefix):
    """A queue on a server of its own: nobody reads so many jobs to check where they are."""
    with redis.Redis.from_url(server.url) as client:
        queue = Queue(client, prefix, "mail")
        open_queue(queue, 30_000)
        yield queue


@dataclass
class Consumers:
    """Workers that claim one job at a time and end it; the first turn of each job of a small lane ends badly."""

    url: str
    prefix: str
    claims: list[Row] = field(default_factory=list)
    empty: int = 0
    lost: list[Row] = field(default_factory=list)
    stop: Event = field(default_factory=Event)

    def run(self, holder: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            queue = Queue(client, self.prefix, "mail")
            while not self.stop.is_set():
                rows = jobs.claim(queue, holder, jobs.new_nonce(), 1)
                self.claims += rows
                self.empty += not rows
                for row in rows:
                    self.end(queue, holder, row)

    def end(self, queue: Queue, holder: str, row: Row) -> None:
        if row.lane == "b" and row.attempts == 1:
            jobs.retry(queue, holder, [scenes.retry(row, delay_ms=1)])
        elif row.lane == "c" and row.attempts == 1:
            self.lost.append(row)
        else:
            jobs.complete(queue, holder, [scenes.completion(row, ttl_ms=0)])


def test_a_crowd_in_one_lane_holds_no_other_lane_up(queue, server):
    """C57, huridocs/uwazi#8062."""
    crowded(queue, CROWD, lane="a")
    consumers = Consumers(server.url, queue.keys.prefix)
    threads = [Thread(target=consumers.run, args=[f"host-{number}.1"]) for number in range(4)]
    for thread in threads:
        thread.start()
    there: dict[str, int] = {}  # the server's microseconds at which a job of a small lane was there for sure
    for _ in range(ROUNDS):
        for lane in SMALL:
            (job_id,) = scenes.enqueued(queue, lane=lane)
            there[job_id] = _server_us(queue)
        _until_served(queue)
        scenes.expire(queue, *(consumers.lost.pop() for _ in range(len(consumers.lost))))
        recover(queue)
        promote(queue)
        _until_served(queue)
    consumers.stop.set()
    for thread in threads:
        thread.join()

    claims = sorted(consumers.claims, key=lambda row: row.token.fence)
    fences, turns = [row.token.fence for row in claims], Counter(row.job_id for row in claims)
    first = {row.job_id: at for at, row in reversed(list(enumerate(claims))) if row.lane in SMALL}
    ahead = [first[job_id] - bisect(fences, at) for job_id, at in there.items()]
    lanes = Counter(row.lane for row in claims)
    assert max(ahead) < 1 + len(SMALL)
    assert consumers.empty == 0
    assert lanes["a"] >= lanes["d"] == ROUNDS
    assert {row.lane for row in claims if turns[row.job_id] > 1} == {"b", "c"}


def _until_served(queue: Queue) -> None:
    deadline = time.monotonic() + 20
    while queue.client.exists(*map(queue.keys.lane, SMALL)):
        assert time.monotonic() < deadline, "a small lane is not served"


def _server_us(queue: Queue) -> int:
    seconds, micros = queue.client.time()
    return int(seconds) * 1_000_000 + int(micros)
