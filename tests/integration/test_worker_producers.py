"""Jobs on their way from those who enqueue them to a worker that is quick."""

import json
import os
import subprocess
import sys

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from echomq_django.bus import jobs
from echomq_django.bus.queue import Queue
from echomq_django.connection import get_bus
from tests.chaos import ledger, seen
from tests.chaos.crew import Crew

pytest_plugins = ["tests.chaos.fixtures"]


@pytest.fixture
def shop(crew: Crew, client: Client, emq: Settings, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of a site whose requests are transactions, beside an idle worker."""
    emq.ROOT_URLCONF = "tests.chaos.views"
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    crew.start().ready()
    return client


def test_a_job_that_a_view_enqueues_sees_the_row_that_the_view_created(shop: Client, queue: Queue) -> None:
    """C27, saleor/saleor#5457."""
    ordered = shop.post("/order/").json()

    [end] = seen.done(queue, ordered["job"])
    assert end.value == b"true"
    assert ledger.order_of_starts() == [ordered["later"], ordered["job"]]


def test_a_view_that_is_rolled_back_enqueues_nothing(shop: Client, queue: Queue) -> None:
    """C27, saleor/saleor#5457."""
    ordered = shop.post("/cancelled_order/").json()

    assert jobs.read(queue, ordered["job"]) is None
    assert ledger.order_of_starts() == [ordered["later"]]


def test_a_savepoint_that_is_rolled_back_takes_only_its_own_job_with_it(shop: Client, queue: Queue) -> None:
    """C27, saleor/saleor#5457."""
    ordered = shop.post("/order_with_a_regretted_part/").json()

    assert [end.value for end in seen.done(queue, *ordered["kept"])] == [b"true", b"true"]
    assert jobs.read(queue, ordered["regretted"]) is None
    assert ledger.order_of_starts() == ordered["kept"]


def test_a_view_outside_of_any_transaction_enqueues_at_once(shop: Client, queue: Queue) -> None:
    """C27, saleor/saleor#5457."""
    ordered = shop.post("/order_without_transaction/").json()

    assert [end.value for end in seen.done(queue, ordered["job"])] == [b"true"]


def test_processes_forked_from_one_that_enqueues_share_neither_connections_nor_ids(crew: Crew, queue: Queue) -> None:
    """C65, redis/redis-py#863."""
    crew.start("--threads", "2")
    producer = [sys.executable, "-m", "tests.chaos.forking_producer"]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.chaos.settings"}
    printed = subprocess.run(producer, check=True, stdout=subprocess.PIPE, timeout=60, env=environment).stdout
    job_ids = json.loads(printed)

    assert len(set(job_ids)) == len(job_ids) == 5 + 9 * 25 + 5
    seen.done(get_bus().queue("default"), *job_ids)
    assert ledger.effects(job_ids) == len(job_ids)
    assert sorted(ledger.order_of_starts()) == sorted(job_ids)
