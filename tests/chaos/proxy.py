"""A link to a server that a test can cut, silence, lead elsewhere, let lose words, or let spring a trap."""

import select
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from django.db import connection


@dataclass(eq=False)
class Trap:
    """Calls `spring` once, at the first `command` for which `ready` answers True.

    That is before the command is forwarded, or with `after` once the server has answered it, before the client knows.
    """

    command: bytes
    after: bool
    spring: Callable[[], None]
    ready: Callable[[], bool]
    sprung: bool = False
    _answering: socket.socket | None = None

    def catches(self, source: socket.socket, target: socket.socket, data: bytes) -> bool:
        """Return whether it has sprung on `data`, which is on its way from `source` to `target`."""
        if source is self._answering:
            self._answering = None
            if data.startswith(b"-NOSCRIPT"):
                return False
        elif self.command not in data or not self.ready():
            return False
        elif self.after:
            self._answering = target
            return False
        self.spring()
        self.sprung = True
        return True


class Proxy:
    """Forwards connections to a port of this machine; counts refused `attempts`, and `answered` and `lost` commands."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: dict[socket.socket, socket.socket] = {}
        self._silent: set[socket.socket] = set()
        self._asking: dict[socket.socket, bytes] = {}  # whose reply may get lost
        self._refusing = self._silencing = self._closing = False
        self._stopped = b""
        self._losing: tuple[bytes, ...] = ()
        self._every = 1
        self._trap: Trap | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="proxy")
        self.attempts = 0
        self.answered: Counter[bytes] = Counter()
        self.lost: Counter[bytes] = Counter()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing = True
        self._thread.join()
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        with self._lock:
            self._cut()

    def silence(self) -> None:
        """Forward nothing more, on connections of old and of new, which stay open."""
        with self._lock:
            self._silencing = True
            self._silent.update(self._peers)

    def heal(self) -> None:
        """Serve new connections, and pass everything on; connections that fell silent stay so."""
        with self._lock:
            self._refusing = self._silencing = False
            self._stopped, self._losing = b"", ()

    def lead_to(self, port: int) -> None:
        """Let new connections lead elsewhere, as a name does that stands for another server now; old ones stay."""
        with self._lock:
            self._target = ("127.0.0.1", port)

    def stop(self, command: bytes) -> None:
        """Close each connection that says `command` instead of passing that on."""
        with self._lock:
            self._stopped = command

    def lose_replies(self, *commands: bytes, every: int) -> None:
        """Close the connection instead of passing on the first reply to each command, and every n-th after that.

        Replies that are empty or an error do not count.
        """
        with self._lock:
            self._losing, self._every = commands, every

    def set_trap(self, trap: Trap) -> None:
        """Cut the link once `trap` has sprung; what it has sprung on is not passed on."""
        with self._lock:
            self._trap = trap

    def _serve(self) -> None:
        while not self._closing:
            with self._lock:
                sources = [self._listener, *(one for one in self._peers if one not in self._silent)]
            ready, _, _ = select.select(sources, [], [], 0.02)
            with self._lock:
                for one in ready:
                    if one is self._listener:
                        self._accept()
                    elif one in self._peers and one not in self._silent:
                        self._forward(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._refusing:
            self.attempts += 1
            client.close()
            return
        server = socket.create_connection(self._target)
        self._peers |= {client: server, server: client}
        if self._silencing:
            self._silent |= {client, server}

    def _forward(self, source: socket.socket) -> None:
        target = self._peers[source]
        try:
            data = source.recv(1 << 16)
            if not data or self._is_stopped(data) or self._gets_lost(source, target, data):
                self._close(source)
            elif self._trap and not self._trap.sprung and self._trap.catches(source, target, data):
                self._cut()
            else:
                target.sendall(data)
        except OSError:
            self._close(source)

    def _is_stopped(self, data: bytes) -> bool:
        stopped = bool(self._stopped) and self._stopped in data
        self.attempts += stopped
        return stopped

    def _gets_lost(self, source: socket.socket, target: socket.socket, data: bytes) -> bool:
        for command in self._losing:
            if command in data:
                self._asking[target] = command
                return False
        command = self._asking.pop(source, b"")
        if not command or not data.startswith(b"*") or data.startswith(b"*0"):
            return False
        lost = self.answered[command] % self._every == 0
        self.answered[command] += 1
        self.lost[command] += lost
        return lost

    def _cut(self) -> None:
        self._refusing = True
        while self._peers:
            self._close(next(iter(self._peers)))

    def _close(self, one: socket.socket) -> None:
        for end in (one, self._peers.pop(one)):
            self._peers.pop(end, None)
            self._silent.discard(end)
            self._asking.pop(end, None)
            end.close()


def redis_url(proxy: Proxy) -> str:
    """Return where workers find the server behind `proxy`."""
    return f"redis://127.0.0.1:{proxy.port}/0"


def database_url(proxy: Proxy) -> str:
    """Return where workers find the database behind `proxy`."""
    entry = connection.settings_dict
    return f"postgresql://{entry['USER']}:{entry['PASSWORD']}@127.0.0.1:{proxy.port}/{entry['NAME']}"
