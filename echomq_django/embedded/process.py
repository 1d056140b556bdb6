"""A server process: started, watched until it answers, stopped, killed, and never left behind."""

import os
import secrets
import select
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from echomq_django.embedded.parent import ends_with_parent
from echomq_django.exceptions import EmbeddedServerError

_READY_TIMEOUT = 30.0
_STOP_TIMEOUT = 10.0
_POLL = 0.01


class EmbeddedServer(ABC):
    """A server process that keeps its port and directory over `stop()`, `kill()` and `start()`.

    It takes connections from this machine only and asks for no password. It has a session of its own, so Ctrl-C in
    the terminal reaches only the parent, which then stops it in order. On Linux it also ends when the *thread* that
    started it ends, even by SIGKILL: start it from one that lives as long. Elsewhere a killed parent leaves it running.
    """

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, directory: str | Path, *, port: int | None = None) -> None:
        self.directory = Path(directory).resolve()
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._descendants = -1

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients connect."""

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise EmbeddedServerError(f"{self._title} is not running; call start() first")
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return None while the server runs; once it ended by itself its exit code, or minus the signal."""
        return self._process.poll() if self._process else None

    def start(self) -> Self:
        """Start the server and return when it answers."""
        if self._process is not None:
            raise EmbeddedServerError(f"{self._title} is running already; call stop() or kill() first")
        try:
            self._prepare()
            self._process = self._spawn()
        except OSError as error:
            raise EmbeddedServerError(f"{self._title} can't be started: {error}") from error
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise EmbeddedServerError(f"{self._title} did not start. The end of {self._log}:\n{self._log_tail()}")
            time.sleep(_POLL)

    def stop(self) -> None:
        """Stop the server in order, or by force after ten seconds; do nothing if it is not running."""
        if self._process is None:
            return
        self._process.send_signal(self.stop_signal)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._bury(self._process)

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does when memory runs out; do nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._bury(self._process)

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the server and all that it forked: orphans of PostgreSQL hold memory that a new start refuses."""
        process.wait()
        poller = select.poll()
        poller.register(self._descendants)
        poller.poll(_STOP_TIMEOUT * 1000)
        os.close(self._descendants)
        self._process = None

    @property
    def _title(self) -> str:
        return f"{type(self).__name__} on port {self.port}"

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-10:])

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether the server that was started answers."""

    def _account(self) -> dict[str, Any]:
        """Keywords of `Popen` that name the user whom it runs as."""
        return {}

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._descendants, held_by_each = os.pipe()
        try:
            with self._log.open("ab") as log:
                return subprocess.Popen(
                    self._command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    start_new_session=True,
                    pass_fds=[held_by_each],
                    preexec_fn=ends_with_parent(self.stop_signal),
                    **self._account(),
                )
        finally:
            os.close(held_by_each)


def _free_port() -> int:
    """Pick below the range of outgoing connections: a client that waits for a restart could take the port itself."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
