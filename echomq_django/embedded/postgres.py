"""A PostgreSQL with a data directory of its own."""

import os
import pwd
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echomq_django.embedded.process import EmbeddedServer
from echomq_django.embedded.programs import copied_package, open_to_all, postgres_binaries
from echomq_django.exceptions import EmbeddedServerError


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
        self.binaries = Path(binaries) if binaries else postgres_binaries()
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
        if not open_to_all(self.directory.parent):
            name = pwd.getpwuid(user).pw_name
            raise EmbeddedServerError(
                f"PostgreSQL refuses to run as root, and {name!r}, whom it runs as, can't reach {self.directory}; "
                "choose a directory outside of a private home"
            )
        os.chown(self.directory, user, group)
        if not open_to_all(self.binaries):
            self.binaries = copied_package(self.binaries, self.directory)

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
