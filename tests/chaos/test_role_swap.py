"""Two servers behind one name swap their roles while clients stay connected to the one that becomes a replica."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pytest_django import Settings

from echomq_django.connection import get_bus
from echomq_django.embedded import Valkey
from echomq_django.exceptions import BusUnavailable
from tests.chaos import ledger, outage_log, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.producer import Producer, all_consume
from tests.chaos.proxy import Proxy, redis_url
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])  # longer than any test waits

SECONDS = 10.0
SWAPS = 3


class Pair:
    """A primary and its replica, and the name that stands for one of them."""

    def __init__(self, name: Proxy, primary: Valkey, replica: Valkey) -> None:
        self.name, self.primary, self.replica = name, primary, replica

    def swap(self) -> None:
        """Swap the roles without losing a write: nothing is written until the replica has everything."""
        with redis.Redis.from_url(self.primary.url) as old, redis.Redis.from_url(self.replica.url) as new:
            until(lambda: new.info("replication")["master_link_status"] == "up")
            old.client_pause(60_000, all=False)
            until(lambda: offset(new, "slave_repl_offset") == offset(old, "master_repl_offset"))
            new.replicaof("NO", "ONE")
            old.replicaof("127.0.0.1", self.replica.port)
            old.client_unpause()
        self.primary, self.replica = self.replica, self.primary

    def rename(self) -> None:
        """Let the name stand for the primary."""
        self.name.lead_to(self.primary.port)


def offset(client: redis.Redis, field: str) -> int:
    """Return how far a server has come."""
    return int(client.info("replication")[field])


@pytest.fixture
def pair(emq: Settings, valkey: Valkey, to_server: Proxy, tmp_path: Path) -> Iterator[Pair]:
    """The server of the test and a replica of it; the test finds them by their name, as its workers do."""
    emq.CACHES = {**emq.CACHES, "emq": {**emq.CACHES["emq"], "LOCATION": redis_url(to_server)}}
    with Valkey(tmp_path / "replica", config={"replicaof": f"127.0.0.1 {valkey.port}"}) as replica:
        yield Pair(to_server, valkey, replica)
        with redis.Redis.from_url(valkey.url) as client:
            client.replicaof("NO", "ONE")
        to_server.lead_to(valkey.port)


def test_after_a_swap_of_roles_all_workers_consume_from_the_new_primary_and_no_accepted_job_is_missing(
    crew: Crew, pair: Pair
) -> None:
    """C13, redis/redis-py#460."""
    workers = [crew.start(EMQ_TEST_REDIS_URL=redis_url(pair.name)) for _ in range(4)]
    with Producer() as producer:
        until(lambda: len(ledger.all_pids()) == len(workers))
        before = [worker.pids for worker in workers]
        for _ in range(SWAPS):
            pair.swap()
            producer.is_refused()
            pair.rename()
            all_consume(within=SECONDS)
    seen.done(get_bus().queue("default"), *producer.accepted)

    until(lambda: all(map(outage_log.is_told_of, workers)))
    assert {type(error) for error in producer.refused} == {BusUnavailable}
    assert producer.slowest < SECONDS
    assert ledger.all_starts() == Counter(producer.accepted)
    assert [worker.pids for worker in workers] == before
    for worker in workers:
        assert max(outage_log.outages(worker).values()) <= SWAPS, worker.log


def test_workers_that_wait_for_work_at_the_old_primary_hear_of_a_job_at_the_new_one(crew: Crew, pair: Pair) -> None:
    workers = [crew.start(EMQ_TEST_REDIS_URL=redis_url(pair.name)).ready() for _ in range(2)]
    for _ in range(SWAPS):
        until(lambda: waiting(pair.primary) == len(workers))
        pair.swap()
        pair.rename()
        seen.done(get_bus().queue("default"), tasks.work.enqueue().id, within=SECONDS)


def waiting(server: Valkey) -> int:
    """Return how many clients wait for work."""
    with redis.Redis.from_url(server.url) as client:
        return int(client.info("clients")["blocked_clients"])
