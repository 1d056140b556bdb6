"""The cache alias of the queue is no cache."""

import inspect
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django_redis.cache import RedisCache

from echomq_django.exceptions import CacheUseRefused

HARMLESS = {"close", "aclose", "get_backend_timeout", "make_key", "make_and_validate_key", "validate_key"}
VERBS = sorted(
    name
    for name, member in {**vars(BaseCache), **vars(RedisCache)}.items()
    if inspect.isfunction(member) and not name.startswith("_") and name not in HARMLESS
)


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if not inspect.iscoroutinefunction(getattr(BaseCache, verb, None))]
)
def test_every_verb_of_a_cache_is_refused_with_the_alias(verb: str) -> None:
    with pytest.raises(CacheUseRefused, match=rf"CACHES\['emq'\] holds the jobs .*{verb}\(\) is refused"):
        getattr(caches["emq"], verb)("key", "value")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("aget", ["a"]),
        ("aset", ["a", 1]),
        ("aclear", []),
        ("aget_or_set", ["a", 1]),
        ("aincr", ["a"]),
        ("adelete_many", [["a"]]),
    ],
)
def test_coroutines_are_refused_too(verb: str, arguments: list[Any]) -> None:
    with pytest.raises(CacheUseRefused):
        async_to_sync(getattr(caches["emq"], verb))(*arguments)


def test_asking_for_a_key_is_refused() -> None:
    with pytest.raises(CacheUseRefused):
        "key" in caches["emq"]  # noqa: B015


def test_a_walk_through_all_caches_meets_the_refusal() -> None:
    def clear_all() -> None:
        for cache in caches.all():
            cache.clear()

    with pytest.raises(CacheUseRefused, match=r"clear\(\)"):
        clear_all()


def test_closing_at_the_end_of_a_request_is_fine() -> None:
    caches["emq"].close()
    async_to_sync(caches["emq"].aclose)()
