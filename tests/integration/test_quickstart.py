"""quickstart.md is followed to the letter, only with a shorter lease and with jobs that take less long."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import django
import pytest

from echomq_django.embedded import Valkey
from tests.chaos.crew import Worker
from tests.integration.doc_blocks import ROOT, blocks

PAGE = blocks(ROOT / "docs" / "quickstart.md")
SHORTER = {'"lease": 5': '"lease": 2', "sleep(20)": "sleep(5)"}
WORKER = "python manage.py emq_worker --processes 1"

REQUEUE = """
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from echomq_django.models import DeadJob

ana = Client(SERVER_NAME="localhost")
ana.force_login(User.objects.get(username="ana"))
[dead] = DeadJob.objects.all()
ana.post(reverse("admin:echomq_django_deadjob_requeue", args=[dead.pk]))
print(DeadJob.objects.get().requeued_by)
"""


def shown(language: str) -> list[str]:
    """Return the lines of the page's blocks in one language."""
    return [line for block in PAGE if block.language == language for line in block.code.splitlines()]


class Reader:
    """Does what the page says, in the folder that the test is in."""

    def __init__(self, port: int) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "EMQ_TEST"))}
        self._environment = {**kept, "PYTHONPATH": str(ROOT), "DJANGO_SUPERUSER_PASSWORD": "ana"}
        self._workers: list[Worker] = []
        self.do("django-admin startproject shop .")
        self.do("python manage.py startapp receipts")
        for block in PAGE:
            if block.module:
                self._add(block.module, block.code.replace("6379", str(port)))

    @property
    def log(self) -> str:
        """What the workers have printed."""
        return "".join(worker.log for worker in self._workers)

    def do(self, command: str, *more: str) -> str:
        """Call a program that the page calls, and return what it printed."""
        done = subprocess.run(
            [*words_of(command), *more], env=self._environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start_worker(self) -> Worker:
        """Start a worker in a terminal of its own."""
        self._workers.append(Worker(words_of(WORKER), Path(f"worker-{len(self._workers)}.log"), self._environment))
        return self._workers[-1]

    def leave(self) -> None:
        """Leave nothing behind."""
        for worker in self._workers:
            worker.kill()

    def _add(self, module: str, code: str) -> None:
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        if module == "shop.settings" and django.VERSION < (6,):
            code += 'INSTALLED_APPS += ["django_tasks"]\n'
        with Path(*module.split(".")).with_suffix(".py").open("a") as file:
            file.write(code)


def words_of(command: str) -> list[str]:
    """Return the words of a command, which must be one of the page."""
    assert f"$ {command}" in "\n".join(shown("console"))
    program, *words = shlex.split(command)
    return [sys.executable, *(["-m", "django"] if program == "django-admin" else []), *words]


@pytest.fixture
def reader(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    reader = Reader(valkey.port)
    yield reader
    reader.leave()


@pytest.mark.worker_processes
def test_whoever_follows_the_quickstart_sees_what_it_shows(reader: Reader) -> None:
    [send] = [line[2:] for line in shown("console") if "send_receipt.enqueue" in line]
    [charge] = [line[2:] for line in shown("console") if "charge.enqueue" in line]
    reader.do("python manage.py migrate")
    first = reader.start_worker().ready()
    reader.do(send)
    first.logged("attempt 1 in process")
    os.kill(int(re.findall(r"in process (\d+)", first.log)[-1]), signal.SIGKILL)
    first.logged("attempt 2 in process").tell_all(signal.SIGKILL)
    second = reader.start_worker().logged("attempt 3 in process")
    reader.do(charge)
    second.logged("failed, 2 of 2: dead")
    Path("bank-is-open").touch()
    reader.do("python manage.py createsuperuser --username ana --email ana@example.org", "--noinput")
    assert reader.do(charge.partition(" -c")[0], "-c", REQUEUE).splitlines()[-1] == "ana"
    second.logged("order 8: charged").logged("order 7: sent").tell(signal.SIGINT)

    assert second.exit_code() == 0
    for line in shown("text"):
        pattern = re.sub(r"\d+|valkey|JOB\w+", lambda found: r"\w+", re.escape(line))
        assert re.search(pattern, reader.log), f"{line!r} was not printed:\n{reader.log}"


def test_the_server_of_the_quickstart_starts(tmp_path: Path) -> None:
    [code] = [block.code for block in PAGE if block.module == "server"]
    with Valkey(tmp_path / "another") as other:
        free = str(other.port)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code.replace("6379", free)],
        input="\n", cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert f"redis://127.0.0.1:{free}/0" in done.stdout
