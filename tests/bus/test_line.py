"""Connections that are held for many calls, when what they lead to becomes another server."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.exceptions import AskError, MovedError

from echomq_django.bus import jobs
from echomq_django.bus.jobs import Entry
from echomq_django.bus.line import Line
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.exceptions import BusUnavailable
from tests.bus.scenes import new_job
from tests.chaos.proxy import Proxy


@pytest.fixture
def other(valkey, tmp_path):
    """A client of another server, which has never seen a script."""
    with type(valkey)(tmp_path / "other") as server, redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def name(valkey, redis_client):
    """A name that stands for the server of the test, which is a primary again in the end."""
    with Proxy(valkey.port) as proxy:
        yield proxy
    redis_client.replicaof("NO", "ONE")


@pytest.fixture
def named(name, prefix):
    """A queue that is found by that name."""
    with redis.Redis(port=name.port, retry=None) as client:
        yield Queue(client, prefix, "mail")


def port(client):
    """Return the port of the server that answers."""
    return client.info("server")["tcp_port"]


def test_one_answer_of_a_replica_speaks_for_all_connections_that_are_idle(named, name, other, redis_client):
    with ThreadPoolExecutor() as threads:
        waits = [("BLPOP", "nothing", 0.1)] * 3
        assert list(threads.map(named.line.call, waits)) == [None] * len(waits)
    named.client.ping()
    redis_client.replicaof("127.0.0.1", port(other))
    name.lead_to(port(other))

    with pytest.raises(BusUnavailable, match="read only replica"):
        jobs.enqueue(named, [new_job(named)])

    assert jobs.enqueue(named, [new_job(named)]) == [Entry.ADDED]
    assert port(named.client) == port(other)


def test_a_script_is_loaded_where_it_is_missing_though_the_pool_leads_elsewhere(redis_client, other, prefix):
    queue = Queue(redis_client, prefix, "mail", Line(other.connection_pool))

    assert jobs.enqueue(queue, [new_job(queue)]) == [Entry.ADDED]
    assert not redis_client.exists(queue.keys.pending)


@pytest.mark.parametrize("kind", [MovedError, AskError])
def test_a_slot_that_is_elsewhere_is_no_fault_of_the_script(kind):
    with pytest.raises(BusUnavailable, match="can't serve now"), server_errors("jobs/complete"):
        raise kind("3999 127.0.0.1:6381")
