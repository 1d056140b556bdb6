"""`manage.py emq_dev`: server, worker and site of a project together, for those who develop it."""

import os
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from echomq_django.conf import load
from echomq_django.connection import Bus
from echomq_django.embedded import DjangoProcess, Terminal, Valkey, leave_on_signals
from echomq_django.exceptions import EmbeddedServerError, InvalidSetting

_USAGE = 2
_POLL = 0.1
_LOOPBACK = ("127.0.0.1", "localhost")
_FOLDER = ".emq"
_GRACE = "5"

Style = Callable[[str], str]


class Command(BaseCommand):
    """Exit codes: 0 stopped as asked, 2 usage or configuration, else that of the part which ended by itself."""

    help = "Starts a server for the queue, a worker and Django's runserver; Ctrl-C stops them all."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("addrport", nargs="?", help="port, or address:port, of the site (default: runserver's)")
        parser.add_argument("--backend", default="default", help="alias in TASKS (default: %(default)s)")

    def handle(self, *, addrport: str | None, backend: str, **options: Any) -> None:
        """Run until a signal comes, the terminal is gone, or one of the parts ends."""
        if not settings.DEBUG:
            raise CommandError("emq_dev is for development only, and DEBUG is off.", returncode=_USAGE)
        leave_on_signals()
        self._terminal = Terminal()
        with ExitStack() as stack:
            server = self._serve(stack, backend)
            worker = ("emq_worker", "--autoreload", "--backend", backend, "--grace", _GRACE)
            site = ("runserver", *([addrport] if addrport else []))
            parts: dict[str, Valkey | DjangoProcess] = {"server": server} if server else {}
            parts["worker"] = self._start(stack, "worker", self.style.SUCCESS, *worker)
            parts["site"] = self._start(stack, "site", self.style.MIGRATE_HEADING, *site)
            stack.callback(self._terminal.say, "Stopping ...")
            self._watch(parts)

    def _serve(self, stack: ExitStack, backend: str) -> Valkey | None:
        """Start a server where the alias points, if that is on this machine and nothing listens there."""
        try:
            bus = Bus(load(backend))
            where = urlsplit(bus.address())
            port = where.port or 6379
            if where.scheme != "redis" or where.hostname not in _LOOPBACK or _listens(where.hostname, port):
                self._terminal.say(f"The queue is on the server at {bus.address()}; emq_dev starts none of its own.")
                return None
            server = stack.enter_context(Valkey(_folder() / f"valkey-{port}", port=port, persist=True))
        except (InvalidSetting, EmbeddedServerError) as error:
            raise CommandError(str(error), returncode=_USAGE) from error
        self._terminal.say(f"Started a server at {bus.address()}; its data and its log stay in {server.directory}")
        return server

    def _start(self, stack: ExitStack, name: str, style: Style, *arguments: str) -> DjangoProcess:
        """Start a command of Django; each line that it says stands behind its name."""
        reading, writing = os.pipe()
        relay = Thread(target=self._relay, args=(style(f"{name:>6} | "), reading), daemon=True)
        relay.start()
        stack.callback(relay.join)
        with open(writing, "wb") as output:
            return stack.enter_context(DjangoProcess(arguments, os.environ, output))

    def _relay(self, prefix: str, reading: int) -> None:
        with open(reading, errors="replace") as said:
            for line in said:
                self._terminal.say(prefix + line.rstrip())

    def _watch(self, parts: dict[str, Valkey | DjangoProcess]) -> None:
        while not self._terminal.is_gone(_POLL):
            for name, part in parts.items():
                code = part.exit_code()
                if code is not None:
                    self._terminal.say(f"The {name} ended by itself with exit code {code}.")
                    sys.exit(code if code >= 0 else 128 - code)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _folder() -> Path:
    """Return the folder of the data, which git leaves alone: beside manage.py, or where the command was run."""
    folder = Path(getattr(settings, "BASE_DIR", "")) / _FOLDER
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder
