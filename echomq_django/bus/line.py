"""Connections to one server, each held for one call after the other: at half the price of a pool for all commands."""

import os
import time
from collections import deque
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis import ConnectionPool, ReadOnlyError, ResponseError
from redis.connection import Connection
from redis.exceptions import MasterDownError

_ELSEWHERE = (ReadOnlyError, MasterDownError)  # the name may stand for another server now
_FRESH_S = 1.0  # one that was idle for longer may have been closed by the server: the pool looks


class Line:
    """Sends each command once, on a connection that nobody else uses meanwhile; any number of threads may call.

    When one connection breaks or leads to a replica, those that are idle are closed: they would all say the same.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._pid = os.getpid()
        self._idle: deque[tuple[Connection, float]] = deque()

    def call(self, command: tuple[Any, ...]) -> Any:
        """Return the answer to `command`, in bytes; raises what redis-py raises."""
        connection = self._take()
        try:
            # The client library would look at each argument first, which takes thrice as long as to pack them.
            connection.send_packed_command([pack_command(command)])
            answer = connection.read_response()
        except BaseException as error:
            if isinstance(error, ResponseError) and not isinstance(error, _ELSEWHERE):
                self._idle.append((connection, time.monotonic()))
            else:  # half an answer may be left
                self._drop(connection)
                self.close()
            raise
        self._idle.append((connection, time.monotonic()))
        return answer

    def close(self) -> None:
        """Close the connections that are idle, also those of the pool."""
        with suppress(IndexError):
            while True:
                connection, _ = self._idle.pop()
                self._drop(connection)
        self._pool.disconnect(inuse_connections=False)

    def _drop(self, connection: Connection) -> None:
        connection.disconnect()
        self._pool.release(connection)

    def _take(self) -> Connection:
        if self._pid != os.getpid():  # a fork would read the answers of its parent
            self._pid, self._idle = os.getpid(), deque()
        try:
            connection, used_at = self._idle.pop()
        except IndexError:
            return self._pool.get_connection()
        if time.monotonic() - used_at > _FRESH_S:
            self._pool.release(connection)
            return self._pool.get_connection()
        return connection
