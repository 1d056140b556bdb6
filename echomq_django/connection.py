"""The way to the servers: one registry for the whole process, which a fork and a change of settings empty."""

import os
import threading
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from django.conf import settings as django_settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string
from django_redis.pool import get_connection_factory
from redis.backoff import NoBackoff
from redis.retry import Retry

from echomq_django.bus.ids import queue_bits, queue_bits_of
from echomq_django.bus.line import Line
from echomq_django.bus.queue import Queue, server_errors
from echomq_django.cache import BusCache
from echomq_django.conf import ImproperlyConfiguredQueue, Settings, did_you_mean, load
from echomq_django.exceptions import UnknownQueue, UnsupportedServer
from echomq_django.framework import DEFAULT_TASK_BACKEND_ALIAS

SOCKET_TIMEOUT = 5.0

_TIMEOUTS = ("socket_timeout", "socket_connect_timeout")
_MINIMUM = {"redis": (7, 0), "valkey": (7, 2)}

_buses: dict[str, "Bus"] = {}
_lock = threading.Lock()


class Bus:
    """The queues of one alias of `TASKS` and the clients that reach them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client = self.client()
        self._line = Line(self._client.connection_pool)
        self._queues = {name: Queue(self._client, settings.prefix, name, self._line) for name in settings.queues}
        self._by_bits = {queue_bits(name): queue for name, queue in self._queues.items()}

    def queue(self, name: str) -> Queue:
        """Return the queue `name`, for producers and readers; raises `UnknownQueue` if it is not in `QUEUES`."""
        try:
            return self._queues[name]
        except KeyError:
            raise UnknownQueue(unknown_queue(self.settings, name)) from None

    def queues(self) -> list[Queue]:
        """Return all queues in the order of `QUEUES`."""
        return list(self._queues.values())

    def queue_of(self, job_id: str) -> Queue | None:
        """Return the queue that `job_id` was minted for, or None if it is none of these."""
        return self._by_bits.get(queue_bits_of(job_id))

    def client(self, *, socket_timeout: float | None = None) -> redis.Redis:
        """Return a new client with connections of its own, which sends each command once and answers in bytes.

        `socket_timeout` (seconds) bounds connecting, too; without it the alias decides, or 5 seconds.
        """
        entry = cache_entry(self.settings)
        factory = get_connection_factory(options=_connection_options(entry, socket_timeout or SOCKET_TIMEOUT))
        pool = factory.get_connection_pool(factory.make_connection_params(location(entry)))
        kwargs = pool.connection_kwargs
        kwargs.update(decode_responses=False, retry=_once())
        for name in _TIMEOUTS:
            kwargs[name] = socket_timeout or kwargs.get(name) or SOCKET_TIMEOUT
        options = getattr(factory, "redis_client_cls_kwargs", {})
        return cast(redis.Redis, factory.redis_client_cls(connection_pool=pool, **options))

    def address(self) -> str:
        """Return where the server is, for messages; a password is never in it."""
        url = urlsplit(location(cache_entry(self.settings)))
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    def close(self) -> None:
        """Close the connections that are idle."""
        self._line.close()


def get_bus(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> Bus:
    """Return the one bus of `TASKS[alias]` in this process."""
    try:
        return _buses[alias]
    except KeyError:
        with _lock:
            return _buses.setdefault(alias, Bus(load(alias)))


def check_server(client: redis.Redis) -> str:
    """Return the server's name and version, or "unknown" if it may not be asked.

    Raises `UnsupportedServer` for Redis before 7.0 and Valkey before 7.2, `BusUnavailable`, and `BusRefused` for a
    wrong password.
    """
    with server_errors("asking for the server's version"):
        try:
            info = client.info("server")
        except redis.ResponseError as error:
            if "HELLO" in str(error):
                raise UnsupportedServer(_too_old("older than redis 6.0", "redis")) from error
            return "unknown"
    name = "valkey" if "valkey_version" in info else "redis"
    version = str(info.get(f"{name}_version", ""))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < _MINIMUM[name]:
        raise UnsupportedServer(_too_old(f"{name} {version}", name))
    return f"{name} {version}" if version else "unknown"


def cache_entry(settings: Settings) -> Mapping[str, Any]:
    """Return the entry of `CACHES` that names the server; raises `ImproperlyConfiguredQueue` if there is none."""
    entry = django_settings.CACHES.get(settings.cache)
    if entry is None:
        hint = did_you_mean(settings.cache, django_settings.CACHES)
        raise ImproperlyConfiguredQueue(
            f"TASKS[{settings.alias!r}]['OPTIONS']['cache'] = {settings.cache!r} is no alias of CACHES{hint}"
        )
    if not entry.get("LOCATION"):
        raise ImproperlyConfiguredQueue(f"CACHES[{settings.cache!r}] has no LOCATION: set it to the server's URL")
    return entry


def is_bus_cache(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry of `CACHES` refuses to be used as a cache."""
    found = import_string(entry["BACKEND"])
    return isinstance(found, type) and issubclass(found, BusCache)


def location(entry: Mapping[str, Any]) -> str:
    """Return the URL of the server that takes writes: the first of several."""
    first = entry["LOCATION"]
    return first.split(",")[0] if isinstance(first, str) else next(iter(first))


def unknown_queue(settings: Settings, name: str) -> str:
    """Return the message about a queue that `QUEUES` does not list."""
    return f"queue {name!r} is not in TASKS[{settings.alias!r}]['QUEUES']{did_you_mean(name, settings.queues)}"


def _connection_options(entry: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    options = dict(entry.get("OPTIONS", {}))
    if "SENTINELS" in options:
        # Left to itself redis-py asks a sentinel that is down ten times before it asks the next one.
        patience = {"retry": _once(), **dict.fromkeys(_TIMEOUTS, timeout)}
        options["SENTINEL_KWARGS"] = {**patience, **options.get("SENTINEL_KWARGS", {})}
    return options


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def _too_old(version: str, name: str) -> str:
    minimum = ".".join(map(str, _MINIMUM[name]))
    return f"the server is {version}, the queue needs {minimum} or newer: upgrade the server"


def _start_anew() -> None:
    # Two processes on one socket would read each other's replies; the parent may have held the lock.
    global _lock
    _lock = threading.Lock()
    _buses.clear()


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting in ("TASKS", "CACHES"):
        for alias in list(_buses):
            _buses.pop(alias).close()


os.register_at_fork(after_in_child=_start_anew)
setting_changed.connect(_forget)
