"""Runs the whole product on one machine, for somebody who wants to watch it."""

import http.client
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.management.utils import get_random_secret_key

from echomq_django.embedded import DjangoProcess, Postgres, Terminal, Valkey, command_line, leave_on_signals
from echomq_django.exceptions import EmbeddedServerError
from example_project.bot.crash import WORKER_FILE

_USUAL_PORT = 8000
_PAGE_TIMEOUT = 60.0
_RESTART_AFTER = 2.0
_POLL = 0.1
_USER = "operator"
_WORKER = ("emq_worker", "--processes", "2", "--grace", "2")
_SITE = ("runserver", "--noreload")
_WORKER_LOG, _SITE_LOG = "worker.log", "site.log"

_INTRODUCTION = """
  Page        {page}
  Dead jobs   {page}admin/echomq_django/deadjob/
  Leases      {page}admin/echomq_django/lease/
  User        {user}
  Password    {password}   (for this demo only: it ends with it)

Worker {worker} runs with two processes; the logs are in {directory}
Ctrl-C stops everything and leaves nothing behind.
"""


class Command(BaseCommand):
    """Starts servers, worker and site, restarts a killed worker, and leaves nothing behind."""

    help = "Start servers, worker and site of the example on this machine. Ctrl-C stops them and leaves nothing behind."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the port of the page and the choice of the database."""
        parser.add_argument("--port", type=int, help="port of the page; 8000 if it is free, 0 for any free one")
        parser.add_argument("--no-postgres", action="store_true", help="keep the data in SQLite")

    def handle(self, *, port: int | None, no_postgres: bool, **options: Any) -> None:
        """Run until a signal comes or a part of the demo fails."""
        leave_on_signals()
        self._terminal = Terminal()
        try:
            self._run(self._free_port(port), no_postgres)
        except EmbeddedServerError as error:
            raise CommandError(str(error)) from error

    def _run(self, port: int, no_postgres: bool) -> None:
        with ExitStack() as stack:
            stack.callback(self._terminal.say, "Everything is stopped, and nothing is left behind.")
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="echomq-demo-")))
            # PostgreSQL, started by root, runs as somebody else.
            directory.chmod(0o711)
            self._terminal.say("Starting the demo ...")
            environment = self._start_servers(stack, directory, no_postgres)
            password = secrets.token_urlsafe(9)
            _prepare(environment, password)
            worker = _start(stack, _WORKER, environment, directory / _WORKER_LOG)
            _note(worker, directory)
            address = f"127.0.0.1:{port}"
            site = _start(stack, [*_SITE, address], environment, directory / _SITE_LOG)
            _wait_for_page(site, port, directory)
            stack.callback(self._terminal.say, "\nStopping ...")
            facts = {"user": _USER, "password": password, "worker": worker.pid, "directory": directory}
            self._terminal.say(_INTRODUCTION.format(page=f"http://{address}/", **facts))
            self._watch(site, worker, directory)

    def _start_servers(self, stack: ExitStack, directory: Path, no_postgres: bool) -> dict[str, str]:
        """Start Valkey and the database, and return the environment in which Django finds them."""
        database = None if no_postgres else self._start_postgres(stack, directory)
        valkey = stack.enter_context(Valkey(directory / "valkey"))
        return {
            **os.environ,
            "DATABASE_URL": database or f"sqlite:///{directory / 'demo.sqlite3'}",
            "BUS_URL": valkey.url,
            "SECRET_KEY": get_random_secret_key(),
            "DEMO_DIRECTORY": str(directory),
        }

    def _start_postgres(self, stack: ExitStack, directory: Path) -> str | None:
        try:
            if find_spec("psycopg") is None:
                raise EmbeddedServerError("psycopg is not installed; install echomq-django[postgres]")
            return stack.enter_context(Postgres(directory / "postgres")).url
        except EmbeddedServerError as error:
            self._terminal.say(f"SQLite instead of PostgreSQL: {error}")
            return None

    def _watch(self, site: DjangoProcess, worker: DjangoProcess, directory: Path) -> None:
        """Start a killed worker anew until the terminal is gone; raise `CommandError` if something else ends."""
        while not self._terminal.is_gone(_POLL):
            if site.exit_code() is not None:
                raise CommandError(f"The site ended by itself. {_last_words(directory / _SITE_LOG)}")
            code = worker.exit_code()
            if code is not None:
                self._restart(worker, code, directory)

    def _restart(self, worker: DjangoProcess, code: int, directory: Path) -> None:
        if code >= 0:
            raise CommandError(f"The worker gave up with exit code {code}. {_last_words(directory / _WORKER_LOG)}")
        killed = worker.pid
        (directory / WORKER_FILE).unlink()
        worker.kill()
        time.sleep(_RESTART_AFTER)
        worker.start()
        _note(worker, directory)
        self._terminal.say(
            f"Worker {killed} was killed ({signal.Signals(-code).name}); worker {worker.pid} takes its place."
        )

    def _free_port(self, wanted: int | None) -> int:
        for port in [_USUAL_PORT, 0] if wanted is None else [wanted]:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    if wanted is None:
                        self._terminal.say(f"Port {port} is in use, so the page gets another one.")
                    continue
                return int(probe.getsockname()[1])
        raise CommandError(f"Port {wanted} is in use; choose another one, or 0 for any free one.")


def _prepare(environment: dict[str, str], password: str) -> None:
    _manage(environment, "migrate")
    account = {"DJANGO_SUPERUSER_PASSWORD": password}
    _manage({**environment, **account}, "createsuperuser", "--noinput", f"--username={_USER}", "--email=")


def _manage(environment: dict[str, str], *arguments: str) -> None:
    command = command_line(*arguments, "--verbosity=0")
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, start_new_session=True)
    if outcome.returncode != 0:
        raise CommandError(f"`manage.py {arguments[0]}` failed:\n{outcome.stderr.strip()}")


def _start(stack: ExitStack, arguments: Sequence[str], environment: dict[str, str], log: Path) -> DjangoProcess:
    return stack.enter_context(DjangoProcess(arguments, environment, stack.enter_context(log.open("ab"))))


def _last_words(log: Path) -> str:
    return "\n".join([f"The end of {log}:", *log.read_text(errors="replace").splitlines()[-10:]])


def _note(worker: DjangoProcess, directory: Path) -> None:
    """Tell the page which worker it may kill."""
    draft = directory / f"{WORKER_FILE}.new"
    draft.write_text(str(worker.pid))
    draft.replace(directory / WORKER_FILE)


def _wait_for_page(site: DjangoProcess, port: int, directory: Path) -> None:
    deadline = time.monotonic() + _PAGE_TIMEOUT
    while not _page_answers(port):
        if site.exit_code() is not None or time.monotonic() > deadline:
            raise CommandError(f"The site did not start. {_last_words(directory / _SITE_LOG)}")
        time.sleep(_POLL)


def _page_answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
