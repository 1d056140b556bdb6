"""Servers of a few lines that stand in a client's way: one answers as another version, one loses replies."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class _Listener:
    """Accepts connections on a free port and serves each in a thread of its own."""

    def __init__(self) -> None:
        self._sockets = [socket.create_server(("127.0.0.1", 0))]
        self.port: int = self._sockets[0].getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in self._sockets:
            hang_up(one)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._sockets[0].accept()
            except OSError:
                return
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        raise NotImplementedError


class Impostor(_Listener):
    """Speaks enough of the protocol to be asked for its version, and answers `INFO` with the given fields."""

    def __init__(self, *, hello: str = "%2\r\n+server\r\n+redis\r\n+proto\r\n:3", **info: str) -> None:
        super().__init__()
        self._hello = f"{hello}\r\n".encode()
        self._info = "".join(f"{name}:{value}\r\n" for name, value in info.items())

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                words = [self._word(lines.readline(), lines) for _ in range(int(line[1:]))]
                connection.sendall(self._reply(words[0].upper()))

    def _word(self, header: bytes, lines: object) -> bytes:
        return lines.read(int(header[1:]) + 2)[:-2]  # type: ignore[attr-defined, no-any-return]

    def _reply(self, command: bytes) -> bytes:
        if command == b"INFO":
            return f"${len(self._info)}\r\n{self._info}\r\n".encode()
        return self._hello if command == b"HELLO" else b"+OK\r\n"


class Refuser(_Listener):
    """Hangs up on everybody, and counts them."""

    calls = 0

    def _serve(self, connection: socket.socket) -> None:
        self.calls += 1
        hang_up(connection)


class Cutter(_Listener):
    """Forwards to a server on this machine; on demand it hangs up instead of passing on a reply."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._to = port
        self._sent = b""
        self._cut: bytes | None = None

    def cut_next(self, word: bytes) -> None:
        """Lose the reply of the next request that holds `word`."""
        self._cut = word

    def seen(self, word: bytes) -> int:
        """Return how often `word` was sent."""
        return self._sent.count(word)

    def _serve(self, connection: socket.socket) -> None:
        # Whoever hangs up first, the thread ends quietly.
        with suppress(OSError), connection, socket.create_connection(("127.0.0.1", self._to)) as server:
            self._sockets.append(server)
            while request := received(connection):
                self._sent += request
                server.sendall(request)
                reply = received(server)
                if self._cut and self._cut in request:
                    self._cut = None
                    return
                connection.sendall(reply)


def received(connection: socket.socket) -> bytes:
    """Return what comes next, or nothing once the other side has hung up."""
    try:
        return connection.recv(1 << 20)
    except OSError:
        return b""


def hang_up(connection: socket.socket) -> None:
    """Close a socket that another thread may be waiting on."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
