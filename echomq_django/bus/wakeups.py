"""Waiting for work without polling: one blocking read over several queues that a selector can watch."""

import time
from collections.abc import Sequence

import redis
from redis.connection import Connection

from echomq_django.bus.queue import Queue, server_errors
from echomq_django.bus.scripts import Script
from echomq_django.exceptions import BusUnavailable

_PASS_ON = Script("wakeups/pass_on")
_PULSE_S = 2.0  # how often the server has to answer, so that a link that is dead is found out
_SHORTEST_S = 0.01
_LATE_S = 2.0  # an answer that is this late comes from a link that is dead without having said so


def pass_on(queue: Queue) -> None:
    """Wake another worker if `queue` has work; said by a worker that quits and may have taken the wake-up."""
    keys = queue.keys
    queue.run(_PASS_ON, [keys.lanes, keys.suspect, keys.isolated, keys.wake], [])


class WakeUps:
    """Waits on a connection of its own for the wake-up of any of `queues`.

    `arm()` starts a wait, `fileno()` becomes readable when the server answers, `take()` reads that. All raise
    `BusUnavailable` when the link is broken; the next `arm()` connects anew.
    """

    def __init__(self, client: redis.Redis, queues: Sequence[Queue]) -> None:
        self._pool = client.connection_pool
        self._names = {queue.keys.wake.encode(): queue for queue in queues}
        self._connection: Connection | None = None
        self._until = 0.0
        self._overdue = 0.0

    @property
    def armed(self) -> bool:
        """Whether a wait is under way."""
        return self._overdue > 0

    def arm(self, seconds: float) -> None:
        """Start a wait of at most `seconds`, unless one is under way."""
        if self.armed:
            return
        self._until = time.monotonic() + seconds
        with server_errors("waiting for work"):
            if self._connection is None:
                self._connection = self._pool.get_connection()
            self._ask(self._connection)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the server answers."""
        # The client library offers no public way to wait for two things at once.
        return int(self._connection._sock.fileno())  # type: ignore[union-attr]

    def take(self) -> Queue | None:
        """Read the answer: the queue that woke us, or None; then the wait goes on, unless its time is over."""
        try:
            with server_errors("waiting for work"):
                assert self._connection is not None
                reply = self._connection.read_response()
                self._overdue = 0.0
                if not reply and self._until - time.monotonic() > _SHORTEST_S:
                    self._ask(self._connection)
        except BusUnavailable:
            self.close()
            raise
        return self._names[reply[0]] if reply else None

    def check(self) -> None:
        """Raise `BusUnavailable` if the answer is so late that the link must be dead."""
        if self.armed and time.monotonic() > self._overdue:
            self.close()
            raise BusUnavailable("waiting for work: the link is silent")

    def close(self) -> None:
        """Give up the wait and its connection."""
        self._overdue = 0.0
        if self._connection is not None:
            self._connection.disconnect()
            self._pool.release(self._connection)
            self._connection = None

    def _ask(self, connection: Connection) -> None:
        seconds = min(_PULSE_S, max(_SHORTEST_S, self._until - time.monotonic()))
        connection.send_command("BLPOP", *self._names, seconds)
        self._overdue = time.monotonic() + seconds + _LATE_S
