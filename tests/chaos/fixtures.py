"""The fixtures of all tests that start workers; a module that needs them names this one in `pytest_plugins`."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker, Settings

from echomq_django.bus.queue import Queue
from echomq_django.connection import get_bus
from echomq_django.embedded import Valkey
from tests.chaos import ledger
from tests.chaos.crew import Crew
from tests.chaos.proxy import Proxy


@pytest.fixture(scope="session")
def _tables(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    with django_db_blocker.unblock():
        ledger.create()


@pytest.fixture
def lease() -> float:
    """The lease of all jobs in seconds, unless the test asks for another."""
    return 2.0


@pytest.fixture
def crew(
    emq: Settings,
    valkey: Valkey,
    lease: float,
    monkeypatch: pytest.MonkeyPatch,
    transactional_db: None,
    _tables: None,
    tmp_path: Path,
) -> Iterator[Crew]:
    """Workers on the server of the test and with its own prefix; none outlives the test."""
    tasks = deepcopy(emq.TASKS)
    tasks["default"]["OPTIONS"]["lease"] = lease
    emq.TASKS = tasks
    monkeypatch.setenv("EMQ_TEST_OPTIONS", json.dumps({"lease": lease}))
    monkeypatch.setenv("EMQ_TEST_REDIS_URL", valkey.url)
    ledger.forget()
    crew = Crew(tmp_path)
    yield crew
    crew.finish()


@pytest.fixture
def queue(crew: Crew) -> Queue:
    """The queue `default` on the server of the test."""
    return get_bus().queue("default")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that handlers wait for: `touch()` opens the gate."""
    return tmp_path / "gate"


@pytest.fixture
def to_server(valkey: Valkey, crew: Crew) -> Iterator[Proxy]:
    """The workers' link to the server."""
    with Proxy(valkey.port) as proxy:
        yield proxy
        crew.finish()


@pytest.fixture
def to_database(crew: Crew) -> Iterator[Proxy]:
    """The workers' link to the database."""
    with Proxy(int(connection.settings_dict["PORT"])) as proxy:
        yield proxy
        crew.finish()
