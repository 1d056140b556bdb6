"""The way to the server: one registry for the process, clients that say everything once, and no socket for two."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from pytest_django import Settings

from echomq_django import conf, task
from echomq_django.bus import ids
from echomq_django.connection import SOCKET_TIMEOUT, check_server, get_bus
from echomq_django.embedded import Valkey
from echomq_django.exceptions import BusRefused, BusUnavailable, UnknownQueue, UnsupportedServer
from tests.integration.wire import Cutter, Impostor, Refuser


@task
def sample(number: int) -> None: ...


@pytest.fixture
def at(settings: Settings) -> Any:
    """Points the queue's cache alias somewhere, with options."""

    def point(url: Any, **options: Any) -> None:
        entry = {"BACKEND": "echomq_django.cache.BusCache", "LOCATION": url, "OPTIONS": options}
        settings.CACHES = {**settings.CACHES, "emq": entry}

    return point


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Valkey]:
    """A server that asks for a password, also reached by a unix socket."""
    socket = f"/tmp/emq-{os.getpid()}.sock"
    with Valkey(tmp_path / "valkey", config={"requirepass": "s3cret", "unixsocket": socket}) as server:
        server.unix_socket = socket  # type: ignore[attr-defined]
        yield server


def pool_options(client: redis.Redis) -> dict[str, Any]:
    return client.connection_pool.connection_kwargs


def test_a_process_has_one_bus_for_an_alias(emq: Settings) -> None:
    assert get_bus() is get_bus("default")
    assert [queue.name for queue in get_bus().queues()] == ["default", "emails"]
    assert get_bus().queue("emails").client is get_bus().queue("default").client


def test_changed_settings_make_a_new_bus(emq: Settings) -> None:
    first = get_bus()
    emq.TASKS = {"default": {**emq.TASKS["default"], "QUEUES": ["default"]}}
    second = get_bus()
    emq.CACHES = dict(emq.CACHES)

    assert first is not second is not get_bus()
    assert second.settings is conf.load("default")


def test_a_queue_that_is_not_listed_is_unknown(emq: Settings) -> None:
    with pytest.raises(
        UnknownQueue, match=r"queue 'emials' is not in TASKS\['default'\]\['QUEUES'\]; did you mean 'emails'"
    ):
        get_bus().queue("emials")


def test_an_id_leads_to_its_queue(emq: Settings) -> None:
    bus = get_bus()

    assert bus.queue_of(ids.mint("emails")) is bus.queue("emails")
    assert bus.queue_of(ids.mint("elsewhere")) is None


def test_a_client_of_its_own_shares_no_connection(emq: Settings) -> None:
    one, two = get_bus().client(), get_bus().client(socket_timeout=1.5)

    assert len({one.connection_pool, two.connection_pool, get_bus().queue("default").client.connection_pool}) == 3
    assert pool_options(one)["socket_timeout"] == SOCKET_TIMEOUT
    assert pool_options(two)["socket_timeout"] == pool_options(two)["socket_connect_timeout"] == 1.5


def test_aliases_with_one_url_keep_their_own_options(settings: Settings, valkey: Valkey) -> None:
    entry = {"BACKEND": "echomq_django.cache.BusCache", "LOCATION": valkey.url}
    settings.CACHES = {
        **settings.CACHES,
        "emq": {**entry, "OPTIONS": {"SOCKET_TIMEOUT": 1}},
        "emq2": {**entry, "OPTIONS": {"SOCKET_TIMEOUT": 2}},
    }
    backend = {"BACKEND": "echomq_django.backend.EchoMQBackend"}
    settings.TASKS = {"default": backend, "second": {**backend, "OPTIONS": {"cache": "emq2"}}}

    timeouts = [
        pool_options(get_bus(alias).queue("default").client)["socket_timeout"] for alias in ("default", "second")
    ]

    assert timeouts == [1, 2]


def test_answers_are_bytes_whatever_the_alias_says(at: Any, valkey: Valkey) -> None:
    at(f"{valkey.url}?decode_responses=True", CONNECTION_POOL_KWARGS={"decode_responses": True})
    with get_bus().client() as client:
        client.set("key", "välue")

        assert client.get("key") == "välue".encode()


def test_the_client_says_a_command_once(at: Any, valkey: Valkey) -> None:
    with Cutter(valkey.port) as cutter:
        at(cutter.url, CONNECTION_POOL_KWARGS={"retry_on_timeout": True, "retry_on_error": [redis.ConnectionError]})
        with get_bus().client() as client:
            client.ping()
            cutter.cut_next(b"INCR")

            with pytest.raises(redis.ConnectionError):
                client.incr("counter")

            assert cutter.seen(b"INCR") == 1
            assert client.get("counter") == b"1"


def test_the_first_of_several_locations_takes_the_writes(at: Any, valkey: Valkey) -> None:
    for several in ([valkey.url, "redis://127.0.0.1:1/0"], f"{valkey.url},redis://127.0.0.1:1/0"):
        at(several)

        assert check_server(get_bus().client())


def test_the_database_of_the_url_is_used(at: Any, valkey: Valkey, redis_client: redis.Redis) -> None:
    at(valkey.url.replace("/0", "/3"))
    with get_bus().client() as client:
        client.set("key", "value")

        assert redis_client.get("key") is None
        client.flushdb()


@pytest.mark.parametrize("way", ["url", "option", "user", "unix socket", "client class"])
def test_every_way_of_naming_a_server_works(at: Any, guarded: Valkey, way: str) -> None:
    open_url = guarded.url.replace("//", "//:s3cret@")
    with redis.Redis.from_url(open_url) as admin:
        admin.acl_setuser("ada", enabled=True, passwords=["+pw"], categories=["+@all"], keys=["*"])
        match way:
            case "url":
                at(open_url)
            case "option":
                at(guarded.url, PASSWORD="s3cret")
            case "user":
                at(guarded.url, USERNAME="ada", PASSWORD="pw")
            case "unix socket":
                at(f"unix://{guarded.unix_socket}?db=0", PASSWORD="s3cret")  # type: ignore[attr-defined]
            case "client class":
                at(open_url, REDIS_CLIENT_CLASS=f"{__name__}.OwnClient", REDIS_CLIENT_KWARGS={"client_name": "mine"})

        assert check_server(get_bus().client()).startswith(("valkey ", "redis "))


class OwnClient(redis.Redis):
    pass


def test_a_sentinel_leads_to_the_master(at: Any, settings: Settings, tmp_path: Path, valkey: Valkey) -> None:
    lines = f"sentinel monitor jobs 127.0.0.1 {valkey.port} 1\nsentinel down-after-milliseconds jobs 5000\n"
    with Sentinel(tmp_path / "sentinel", lines) as sentinel, Refuser() as broken:
        at(
            "redis://jobs/0",
            CLIENT_CLASS="django_redis.client.SentinelClient",
            CONNECTION_FACTORY="django_redis.pool.SentinelConnectionFactory",
            SENTINELS=[("127.0.0.1", broken.port), ("127.0.0.1", sentinel.port)],
        )

        assert get_bus().client().info("server")["tcp_port"] == valkey.port
        assert broken.calls == 1
        assert get_bus().address() == "redis://jobs/0"
        assert "CONNECTION_POOL_CLASS" not in settings.CACHES["emq"]["OPTIONS"]


class Sentinel(Valkey):
    """A sentinel: the same program with a file of its own, which it rewrites."""

    def __init__(self, directory: Path, lines: str) -> None:
        super().__init__(directory)
        self._lines = lines

    def _command(self) -> list[str]:
        file = self.directory / "sentinel.conf"
        file.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\n{self._lines}")
        return [super()._command()[0], str(file), "--sentinel"]

    def _is_ready(self) -> bool:
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:s3cret@example.org:6380/2", "redis://example.org:6380/2"),
        ("rediss://:s3cret@example.org", "rediss://example.org"),
        ("unix://user@/run/redis.sock?db=1&password=s3cret", "unix:///run/redis.sock"),
        ("redis://:p@ss@example.org/0", "redis://example.org/0"),
    ],
)
def test_the_address_never_shows_a_password(at: Any, url: str, shown: str) -> None:
    at(url)

    assert get_bus().address() == shown


def test_the_version_of_the_server_is_told(emq: Settings) -> None:
    assert check_server(get_bus().client()).startswith(("valkey 9.", "redis 7."))


def test_a_server_that_is_down_is_unavailable(at: Any) -> None:
    at("redis://127.0.0.1:1/0")

    with pytest.raises(BusUnavailable, match="no answer from the server"):
        check_server(get_bus().client())


@pytest.mark.parametrize("options", [{}, {"PASSWORD": "wrong"}, {"USERNAME": "nobody", "PASSWORD": "s3cret"}], ids=str)
def test_a_wrong_password_is_refused(at: Any, guarded: Valkey, options: dict[str, str]) -> None:
    at(guarded.url, **options)

    with pytest.raises(BusRefused, match="check password and ACL rules") as refusal:
        check_server(get_bus().client())
    assert "s3cret" not in str(refusal.value)


def test_a_user_who_may_not_ask_for_the_version_is_let_in(at: Any, guarded: Valkey) -> None:
    with redis.Redis.from_url(guarded.url.replace("//", "//:s3cret@")) as admin:
        admin.acl_setuser("ada", enabled=True, passwords=["+pw"], categories=["+@all"], commands=["-info"], keys=["*"])
    at(guarded.url, USERNAME="ada", PASSWORD="pw")

    assert check_server(get_bus().client()) == "unknown"


@pytest.mark.parametrize(
    ("info", "complaint"),
    [
        ({"redis_version": "6.2.14"}, r"redis 6\.2\.14, the queue needs 7\.0 or newer"),
        (
            {"redis_version": "5.0.0", "hello": "-ERR unknown command `HELLO`"},
            r"redis (6\.0|5\.0\.0), the queue needs 7\.0",
        ),
        ({"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.1.9"}, r"valkey 7\.1\.9.*needs 7\.2"),
    ],
    ids=str,
)
def test_an_old_server_is_refused(at: Any, info: dict[str, str], complaint: str) -> None:
    with Impostor(**info) as server:
        at(server.url)
        with pytest.raises(UnsupportedServer, match=complaint):
            check_server(get_bus().client())


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ({"redis_version": "7.0.0"}, "redis 7.0.0"),
        ({"redis_version": "8.4.1"}, "redis 8.4.1"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "valkey 7.2.5"),
        ({"redis_version": "255.255.255"}, "redis 255.255.255"),
        ({}, "unknown"),
    ],
    ids=str,
)
def test_a_server_that_is_new_enough_is_accepted(at: Any, info: dict[str, str], version: str) -> None:
    with Impostor(**info) as server:
        at(server.url)

        assert check_server(get_bus().client()) == version


FORKS = """
import json, os, sys, threading
import django

django.setup()

from echomq_django.connection import get_bus
from tests.integration.test_connection import sample

def enqueue(numbers):
    return [sample.enqueue(n).id for n in numbers]

kept = get_bus()
minted = enqueue(range(5))
threads = [threading.Thread(target=enqueue, args=(range(20),)) for _ in range(4)]
[thread.start() for thread in threads]
pipes = []
for number in range(8):
    readable, writable = os.pipe()
    if os.fork() == 0:
        code = 1
        try:
            assert get_bus() is not kept
            ids = enqueue(range(number * 100, number * 100 + 50))
            found = [sample.get_result(one).args[0] for one in ids]
            os.write(writable, json.dumps([ids, found == list(range(number * 100, number * 100 + 50))]).encode())
            code = 0
        finally:
            os._exit(code)
    pipes.append((readable, writable))
minted += enqueue(range(50))
[thread.join() for thread in threads]
right = []
for readable, writable in pipes:
    os.close(writable)
    ids, same = json.loads(open(readable, "rb").read())
    minted += ids
    right.append(same)
assert get_bus() is kept
print(json.dumps([minted, right, len(enqueue(range(5)))]))
"""


def test_forks_share_neither_sockets_nor_ids(emq: Settings) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr

    minted, right, afterwards = json.loads(done.stdout)
    assert len(set(minted)) == len(minted) == 5 + 50 + 8 * 50
    assert right == [True] * 8
    assert afterwards == 5
    queue = get_bus().queue("default")
    assert queue.client.zcard(queue.keys.pending) == len(minted) + 4 * 20 + 5
