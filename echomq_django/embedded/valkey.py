"""A Valkey, or another server that speaks its protocol."""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from echomq_django.embedded.process import EmbeddedServer
from echomq_django.embedded.programs import SERVER_VARIABLE, bundled_valkey
from echomq_django.exceptions import EmbeddedServerError


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
        self.binary = binary or os.environ.get(SERVER_VARIABLE) or bundled_valkey()
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
