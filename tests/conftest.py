"""Servers of the suite, started by the first test that needs one, and the checks that every test gets."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import redis
from django.conf import settings as django_settings
from django.db import connections
from pytest_django import Settings

from echomq_django.embedded import Postgres, Valkey
from tests.invariants import check

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "No Chromium on this machine: the browser tests can't run. Install it: apt-get install chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "crew" in getattr(item, "fixturenames", ()):
            item.add_marker("worker_processes")
    in_browser = [item for item in items if "browser" in item.path.parts[len(Path(__file__).parts) - 1 :]]
    if CHROMIUM or not in_browser:
        return
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        raise pytest.UsageError(NO_CHROMIUM)
    for item in in_browser:
        item.add_marker(pytest.mark.skip(NO_CHROMIUM))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.section("BROWSER TESTS SKIPPED", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests. {NO_CHROMIUM}", red=True)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the browser."""
    assert CHROMIUM, NO_CHROMIUM
    return CHROMIUM


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """A folder that the account which PostgreSQL runs as can reach, unlike `tmp_path`."""
    with tempfile.TemporaryDirectory(prefix="emq-tests-", ignore_cleanup_errors=True) as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


@pytest.fixture(scope="session")
def valkey(server_directory: Path) -> Iterator[Valkey]:
    """The server that most tests share; a test that kills or fills one starts its own."""
    with Valkey(server_directory / "valkey") as server:
        os.environ["EMQ_TEST_REDIS_URL"] = server.url
        yield server


@pytest.fixture(scope="session")
def postgres(server_directory: Path) -> Iterator[Postgres]:
    """The PostgreSQL that all tests share; nothing on it outlives them, so it never waits for a disk."""
    unsafe = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    with Postgres(server_directory / "postgres", config={**unsafe, "max_connections": "200"}) as server:
        yield server


@pytest.fixture(scope="session")
def django_db_modify_db_settings(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> None:
    """Start PostgreSQL, unless the environment names a database."""
    if "EMQ_TEST_DATABASE_URL" not in os.environ:
        where = request.getfixturevalue("postgres").database
        for entry in django_settings.DATABASES.values():
            entry.update(HOST=where["HOST"], PORT=where["PORT"], USER=where["USER"])


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Tell worker processes where the test database is."""
    entry = connections["default"].settings_dict
    if connections["default"].vendor == "postgresql":
        login = f"{entry['USER']}:{entry['PASSWORD']}"
        os.environ["EMQ_TEST_DATABASE_URL"] = f"postgresql://{login}@{entry['HOST']}:{entry['PORT']}/{entry['NAME']}"


@pytest.fixture
def prefix() -> str:
    """A prefix of keys that no other test has."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def redis_client(valkey: Valkey) -> Iterator[redis.Redis]:
    """A client that sends each command once."""
    with redis.Redis.from_url(valkey.url) as client:
        yield client


@pytest.fixture
def emq(settings: Settings, monkeypatch: pytest.MonkeyPatch, valkey: Valkey, prefix: str) -> Settings:
    """Django's settings, pointed at the shared server and the test's own prefix; a worker process inherits both."""
    monkeypatch.setenv("EMQ_TEST_PREFIX", prefix)
    caches, tasks = deepcopy(settings.CACHES), deepcopy(settings.TASKS)
    caches["emq"]["LOCATION"] = valkey.url
    tasks["default"]["OPTIONS"]["prefix"] = prefix
    settings.CACHES, settings.TASKS = caches, tasks
    return settings


@pytest.fixture(autouse=True)
def _every_job_is_in_one_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check the invariants after each test that touched the shared server, and leave it empty."""
    yield
    if "valkey" not in request.fixturenames:
        return
    with redis.Redis.from_url(request.getfixturevalue("valkey").url) as client:
        prefixes = {key.decode().partition(":")[0] for key in client.scan_iter(count=1000)}
        try:
            if not request.node.get_closest_marker("broken_keyspace"):
                for prefix in prefixes:
                    check(client, prefix)
        finally:
            client.flushall()
