"""The server is up and refuses to serve: it still loads its data, or it can't write them to its disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from echomq_django.bus.queue import Queue
from echomq_django.embedded import Valkey
from echomq_django.exceptions import BusUnavailable
from tests.bus.scenes import server_ms
from tests.chaos import ledger, outage_log, seen, tasks
from tests.chaos.crew import Crew
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]

WRITES, US_TO_LOAD_ONE = 20_000, 50
SLOW = {"key-load-delay": str(US_TO_LOAD_ONE), "loading-process-events-interval-bytes": "1024"}


@pytest.fixture
def lease() -> float:
    """Shorter than what a server refuses to serve for."""
    return 1.0


@pytest.fixture(scope="module")
def valkey(server_directory: Path) -> Iterator[Valkey]:
    """A server of its own, which takes two seconds to load what it has, and no writes while it can't save them."""
    with Valkey(server_directory / "refusing", persist=True, config={"save": "3600 1", **SLOW}) as server:
        with redis.Redis.from_url(server.url) as client, client.pipeline(transaction=False) as pipeline:
            for _ in range(WRITES):
                pipeline.incr("ballast")
            pipeline.delete("ballast").execute()
        yield server


def refused(valkey: Valkey) -> int:
    """Return how many scripts a server has refused before it ran them."""
    with redis.Redis.from_url(valkey.url) as client:
        return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("rejected_calls", 0))


class Disk:
    """What a server writes its snapshots to. While it is broken, the server takes no writes (MISCONF)."""

    def __init__(self, valkey: Valkey) -> None:
        self._valkey, self._snapshot = valkey, valkey.directory / "dump.rdb"

    def fail(self) -> None:
        """Put a folder where the next snapshot belongs."""
        self._snapshot.unlink(missing_ok=True)
        self._snapshot.mkdir()
        self._save("err")

    def heal(self) -> None:
        """Take it away."""
        self._snapshot.rmdir()
        self._save("ok")

    def _save(self, status: str) -> None:
        with redis.Redis.from_url(self._valkey.url) as client:
            client.bgsave()
            until(lambda: not client.info("persistence")["rdb_bgsave_in_progress"])
            assert client.info("persistence")["rdb_last_bgsave_status"] == status


@pytest.fixture
def disk(valkey: Valkey) -> Iterator[Disk]:
    """The disk of the server; it works again in the end, for a server that can't save does not stop."""
    disk = Disk(valkey)
    yield disk
    if (valkey.directory / "dump.rdb").is_dir():
        disk.heal()


def test_a_worker_that_starts_before_the_server_and_while_it_loads_waits_and_says_so_once(
    crew: Crew, queue: Queue, valkey: Valkey
) -> None:
    """C25, jonaswinkler/paperless-ng#1561."""
    job_id = tasks.work.enqueue().id
    valkey.kill()
    worker = crew.start().logged("waiting for the server")
    valkey.start()

    seen.done(queue, job_id)
    assert refused(valkey) >= 1
    assert outage_log.told(worker) == ["worker", "waiting", "connected"]


def test_workers_go_on_when_the_server_has_loaded_what_it_lost(crew: Crew, queue: Queue, valkey: Valkey) -> None:
    worker = crew.start().ready()
    seen.done(queue, tasks.work.enqueue().id)
    before = worker.pids
    valkey.kill()
    valkey.start()

    seen.done(queue, tasks.work.enqueue().id)
    until(lambda: outage_log.is_told_of(worker))
    assert refused(valkey) >= 1
    assert worker.pids == before
    assert max(outage_log.outages(worker).values()) == 1


def test_a_worker_that_starts_while_the_server_takes_no_writes_waits_and_says_so_once(
    crew: Crew, queue: Queue, valkey: Valkey, disk: Disk
) -> None:
    """C25, jonaswinkler/paperless-ng#1561."""
    job_id = tasks.work.enqueue().id
    disk.fail()
    with pytest.raises(BusUnavailable, match="MISCONF"):
        tasks.work.enqueue()
    worker = crew.start().logged("waiting for the server")
    before = refused(valkey)
    until(lambda: refused(valkey) >= before + 3)
    disk.heal()

    seen.done(queue, job_id)
    assert outage_log.told(worker) == ["worker", "waiting", "connected"]


def test_an_end_that_the_server_does_not_take_is_said_again_until_it_does_and_counts_once(
    crew: Crew, queue: Queue, valkey: Valkey, disk: Disk, gate: Path, lease: float
) -> None:
    """C25, jonaswinkler/paperless-ng#1561."""
    running = tasks.hold.enqueue(str(gate)).id
    worker = crew.start()
    until(lambda: ledger.starts(running))
    before = worker.pids
    disk.fail()
    worker.logged("the server is gone")
    gate.touch()
    worker.logged("the server is gone", 2)
    ends_at = seen.active(queue)[running]
    until(lambda: server_ms(queue) > ends_at + 1000 * lease)
    disk.heal()

    [end] = seen.done(queue, running)
    until(lambda: outage_log.is_told_of(worker))
    assert (end.attempts, ledger.starts(running), seen.stalls(queue, running)) == (1, 1, 0)
    assert worker.pids == before
    assert max(outage_log.outages(worker).values()) == 1
