"""The settings of the queue: `TASKS[alias]` as one frozen object, checked without a network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from math import isfinite
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from echomq_django.bus.ids import queue_bits
from echomq_django.bus.keyspace import Keyspace
from echomq_django.exceptions import InvalidName, InvalidSetting
from echomq_django.framework import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME

MAX_STALLED = 65_534  # a row has 16 bits for it, and one value means "no bound"
MAX_SECONDS = 10 * 365 * 86_400
MAX_LEASE = 7 * 86_400
LATER = ("floor", "replicated")
UNIQUE = ("start", "done", "debounce")

_BACKEND = "echomq_django.backend.EchoMQBackend"
_TASKS_KEYS = ("BACKEND", "QUEUES", "OPTIONS")


class ImproperlyConfiguredQueue(InvalidSetting, ImproperlyConfigured):
    """A setting of the queue is unknown or has an impossible value; also an `ImproperlyConfigured`."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What holds for the jobs of a queue unless their task says otherwise. Durations are seconds."""

    lease: float = 30
    max_stalled: int | None = 3
    max_failures: int = 5
    result_ttl: float = 600
    soft_time_limit: float | None = None
    time_limit: float | None = 3600
    durability: str = "memory"


@dataclass(frozen=True, slots=True)
class Settings:
    """One alias of `TASKS`. `cache` is the alias in `CACHES` of the server that holds the jobs."""

    alias: str
    cache: str = "emq"
    prefix: str = "emq"
    queues: tuple[str, ...] = (DEFAULT_TASK_QUEUE_NAME,)
    defaults: QueueSettings = QueueSettings()
    per_queue: Mapping[str, QueueSettings] = field(default_factory=dict)
    middleware: tuple[str, ...] = ()

    def for_queue(self, name: str) -> QueueSettings:
        """Return what holds for the queue `name`."""
        return self.per_queue.get(name, self.defaults)


QUEUE_KEYS = tuple(entry.name for entry in fields(QueueSettings))
_OPTIONS_KEYS = ("cache", "prefix", "queues", "middleware", *QUEUE_KEYS)


@cache
def load(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> Settings:
    """Return the settings of `TASKS[alias]`; raises `ImproperlyConfiguredQueue` for the first that is wrong."""
    entry = getattr(django_settings, "TASKS", {}).get(alias)
    if entry is None:
        raise ImproperlyConfiguredQueue(f"TASKS has no alias {alias!r}{did_you_mean(alias, _tasks())}")
    where = f"TASKS[{alias!r}]"
    _refuse_unknown(where, entry, _TASKS_KEYS)
    options = _mapping(f"{where}['OPTIONS']", entry.get("OPTIONS", {}))
    _refuse_unknown(f"{where}['OPTIONS']", options, _OPTIONS_KEYS)
    defaults = _queue_settings(f"{where}['OPTIONS']", options, QueueSettings())
    found = Settings(
        alias=alias,
        cache=_text(f"{where}['OPTIONS']['cache']", options.get("cache", "emq")),
        prefix=_text(f"{where}['OPTIONS']['prefix']", options.get("prefix", "emq")),
        queues=_queue_names(f"{where}['QUEUES']", entry.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME])),
        defaults=defaults,
        middleware=_paths(f"{where}['OPTIONS']['middleware']", options.get("middleware", ())),
    )
    _check_names(where, found)
    return replace(found, per_queue=_per_queue(f"{where}['OPTIONS']['queues']", options, found))


def aliases() -> list[str]:
    """Return the aliases of `TASKS` whose backend is ours."""
    return [alias for alias, entry in _tasks().items() if _is_ours(entry.get("BACKEND", ""))]


def problem_of(name: str, value: Any) -> str | None:
    """Return what is wrong with `value` for the queue setting or task option `name`, or None."""
    match name:
        case "lease" if not (_is_number(value) and 0 < value <= MAX_LEASE):
            return f"must be a number of seconds above 0 and at most {MAX_LEASE:,}"
        case "result_ttl" if not (_is_number(value) and 0 <= value <= MAX_SECONDS):
            return f"must be a number of seconds from 0 to {MAX_SECONDS:,}"
        case "soft_time_limit" | "time_limit" if value is not None and not _is_duration(value):
            return f"must be a number of seconds above 0 and at most {MAX_SECONDS:,}, or None for no limit"
        case "max_stalled" if value is not None and not (_is_integer(value) and 1 <= value <= MAX_STALLED):
            return f"must be an integer from 1 to {MAX_STALLED:,}, or None for no bound"
        case "max_failures" if not (_is_integer(value) and value >= 1):
            return "must be an integer of at least 1"
        case "isolate" if not isinstance(value, bool):
            return "must be True (a process of its own for each job) or False"
        case "expires" if not _is_duration(value):
            return f"must be a number of seconds above 0 and at most {MAX_SECONDS:,}"
        case "unique" if value not in UNIQUE and not _is_duration(value):
            return f"must be one of {', '.join(map(repr, UNIQUE))}, or a number of seconds"
        case "durability" if value in LATER:
            return "comes later: use 'memory'"
        case "durability" if value != "memory":
            return "must be 'memory'"
    return None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown `name`: the nearest of the `known` ones, or all of them."""
    known = sorted(known)
    near = get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there is {', '.join(map(repr, known)) or 'none'}"


def _tasks() -> Mapping[str, Mapping[str, Any]]:
    # Django 5.2 has no default for it.
    return getattr(django_settings, "TASKS", {})


def _is_ours(path: str) -> bool:
    try:
        found = import_string(path)
    except ImportError:
        return False  # Django itself says so, at the first use of the alias.
    return isinstance(found, type) and issubclass(found, import_string(_BACKEND))


def _queue_settings(where: str, options: Mapping[str, Any], inherited: QueueSettings) -> QueueSettings:
    given = {name: options[name] for name in QUEUE_KEYS if name in options}
    for name, value in given.items():
        if problem := problem_of(name, value):
            raise ImproperlyConfiguredQueue(f"{where}[{name!r}] = {value!r}: {problem}")
    return replace(inherited, **given)


def _per_queue(where: str, options: Mapping[str, Any], found: Settings) -> Mapping[str, QueueSettings]:
    entries = _mapping(where, options.get("queues", {}))
    _refuse_unknown(where, entries, found.queues)
    per_queue = {}
    for name, entry in entries.items():
        _refuse_unknown(f"{where}[{name!r}]", _mapping(f"{where}[{name!r}]", entry), QUEUE_KEYS)
        per_queue[name] = _queue_settings(f"{where}[{name!r}]", entry, found.defaults)
    return per_queue


def _queue_names(where: str, names: Any) -> tuple[str, ...]:
    if not isinstance(names, list | tuple | set | frozenset) or not names or not all(isinstance(n, str) for n in names):
        raise ImproperlyConfiguredQueue(f"{where} = {names!r}: must list at least one queue by its name, for workers")
    return tuple(sorted(names) if isinstance(names, set | frozenset) else dict.fromkeys(names))


def _check_names(where: str, found: Settings) -> None:
    by_bits: dict[int, str] = {}
    for name in found.queues:
        try:
            Keyspace(found.prefix, name)
        except InvalidName as error:
            raise ImproperlyConfiguredQueue(f"{where}: {error}") from error
        other = by_bits.setdefault(queue_bits(name), name)
        if other != name:
            raise ImproperlyConfiguredQueue(
                f"{where}['QUEUES']: {other!r} and {name!r} collide, job ids could not tell them apart; rename one"
            )


def _refuse_unknown(where: str, entries: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in entries:
        if name not in known:
            raise ImproperlyConfiguredQueue(f"{where} has an unknown key {name!r}{did_you_mean(name, known)}")


def _mapping(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ImproperlyConfiguredQueue(f"{where} = {value!r}: must be a dictionary")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ImproperlyConfiguredQueue(f"{where} = {value!r}: must be a string that is not empty")
    return value


def _paths(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) and path for path in value):
        raise ImproperlyConfiguredQueue(f"{where} = {value!r}: must be a list of import paths of classes")
    return tuple(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return _is_number(value) and 0 < value <= MAX_SECONDS


def _is_number(value: Any) -> bool:
    return _is_integer(value) or (isinstance(value, float) and isfinite(value))


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "TASKS":
        load.cache_clear()


setting_changed.connect(_forget)
