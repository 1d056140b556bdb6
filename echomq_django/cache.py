"""The entry of `CACHES` that names the server of the queue, and can't be used as a cache."""

from collections.abc import Callable
from inspect import iscoroutinefunction, isfunction
from typing import Any, Never

from django.conf import settings
from django.core.cache.backends.base import BaseCache
from django_redis.cache import RedisCache

from echomq_django.exceptions import CacheUseRefused

_HARMLESS = {"close", "get_backend_timeout", "make_key", "make_and_validate_key", "validate_key"}


class BusCache(RedisCache):  # type: ignore[misc]
    """Names the server that holds the jobs; every verb of a cache raises `CacheUseRefused`.

    A `clear()` by somebody who walks through all caches would delete every job.
    """


def _refusal(verb: str) -> Callable[..., Never]:
    def refuse(self: BusCache, *args: Any, **kwargs: Any) -> Never:
        aliases = [alias for alias, entry in settings.CACHES.items() if entry.get("LOCATION", "") == self._server]
        raise CacheUseRefused(
            f"CACHES[{' or '.join(map(repr, aliases))}] holds the jobs of echomq_django and is no cache: {verb}() "
            f"is refused. Use another alias, on a server or database of its own."
        )

    refuse.__name__ = refuse.__qualname__ = verb
    return refuse


# Which verbs there are, the installed versions decide. A coroutine needs no refusal: it calls its plain twin.
for _name, _verb in {**vars(BaseCache), **vars(RedisCache)}.items():
    if isfunction(_verb) and not iscoroutinefunction(_verb) and not _name.startswith("_") and _name not in _HARMLESS:
        setattr(BusCache, _name, _refusal(_name))
BusCache.__contains__ = _refusal("__contains__")
