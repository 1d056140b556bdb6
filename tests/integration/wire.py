"""Servers of a few lines that stand in the way of a client: one answers for an old Redis, one loses replies."""

import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class _Listener:
    """Accepts connections on a free port and serves each in a thread of its own."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._open: list[socket.socket] = [self._socket]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError
