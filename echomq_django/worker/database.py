"""The care that a request gives its database connections, for each job; where none is open it costs next to nothing."""

import threading
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class _Opened(threading.local):
    """The connections that the thread has opened: Django's own list of them takes longer to read than many a job."""

    def __init__(self) -> None:
        self.connections: list[BaseDatabaseWrapper] = []


_opened = _Opened()


def _note(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
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
