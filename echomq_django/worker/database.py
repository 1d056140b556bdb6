"""The care that a request gives its database connections, for each job; where none is open it costs next to nothing."""

import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class _Opened(threading.local):
    """The connections that the thread has opened: Django's own list of them takes longer to read than many a job."""

    def __init__(self) -> None:
        self.connections: list[BaseDatabaseWrapper] = []


_opened = _Opened()
_threads: set[int] = set()  # those that have opened some


def _note(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    _threads.add(threading.get_ident())
    if not any(one is connection for one in _opened.connections):
        _opened.connections.append(connection)


connection_created.connect(_note)


def tend_connections() -> None:
    """Leave the thread no connection that is broken, half-used or too old, and no log of its queries."""
    for connection in _opened.connections.copy():
        connection.queries_log.clear()
        if connection.in_atomic_block:
            # A handler left a transaction open: nobody knows what is in it, and Django keeps such a wrapper so.
            connection.close()
            del connections[connection.alias]
            _opened.connections.remove(connection)
            continue
        connection.close_if_unusable_or_obsolete()
        if connection.connection is None:
            _opened.connections.remove(connection)
    if not _opened.connections:
        _threads.discard(threading.get_ident())


class CoroutineConnections:
    """The connections of the one thread on which coroutines run what is not asynchronous."""

    def __init__(self) -> None:
        self._thread: int | None = None

    async def tend(self) -> None:
        """Do as `tend_connections()`, without a visit to that thread if it has opened none."""
        if self._thread is None:
            self._thread = await sync_to_async(threading.get_ident)()
        if self._thread in _threads:
            await sync_to_async(tend_connections)()
