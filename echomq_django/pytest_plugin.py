"""Fixtures for the tests of a project: a server, queues of their own for a test, and a worker in its thread.

Django is imported by the fixtures only, for pytest loads this module before it knows the settings.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from echomq_django.testing import Drained

URL_VARIABLE = "EMQ_TEST_URL"


@pytest.fixture(scope="session")
def emq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """The URL of a server for tests: of the environment's EMQ_TEST_URL, else of a Valkey that is started for them.

    None where the extra `embedded` is not installed: the settings name the server then.
    """
    if url := os.environ.get(URL_VARIABLE):
        yield url
        return
    from echomq_django.embedded import Valkey
    from echomq_django.exceptions import EmbeddedServerError

    try:
        server = Valkey(tmp_path_factory.mktemp("emq-server"))
    except EmbeddedServerError:
        yield None
        return
    with server:
        yield server.url


@pytest.fixture
def emq(emq_server: str | None) -> Iterator[str]:
    """Queues that no other test has, on the server for tests; the value is the prefix of their keys."""
    from echomq_django.testing import isolated

    with isolated(emq_server) as prefix:
        yield prefix


@pytest.fixture
def emq_drain(emq: str, db: None) -> "Callable[..., Drained]":
    """`echomq_django.testing.drain`, on queues that no other test has."""
    from echomq_django.testing import drain

    return drain
