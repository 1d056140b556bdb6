"""System checks of the project around the queue; those that ask a server run with `check --deploy` and only warn."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, cast

import django
import redis
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register
from redis.connection import parse_url

from echomq_django import conf
from echomq_django.connection import Bus, check_server, get_bus, is_bus_cache, location
from echomq_django.exceptions import EchoMQError, UnsupportedServer

TAG = "echomq"

_BROKERS = {"orm", "redis", "django_redis", "broker_class", "sqs", "iron_mq", "mongo"}


@register(TAG)
def check_apps(**kwargs: Any) -> list[CheckMessage]:
    """Return what the apps of the project need beside this one."""
    problems: list[CheckMessage] = []
    if django.VERSION < (6, 0) and not apps.is_installed("django_tasks"):
        hint = "Add it: before Django 6.0 the Tasks framework is a package of its own."
        problems.append(Error("'django_tasks' is not in INSTALLED_APPS.", hint, id="echomq_django.E004"))
    if apps.is_installed("django_q"):
        problems += _cluster_problems(getattr(settings, "Q_CLUSTER", {}))
    return problems


def _cluster_problems(cluster: Mapping[str, Any]) -> Iterator[CheckMessage]:
    if not _BROKERS & cluster.keys():
        hint = "Set Q_CLUSTER = {'orm': 'default', 'timeout': 50, 'retry': 60, 'catch_up': False, 'workers': 1}."
        problem = "Q_CLUSTER names no broker, so 'django_q' uses a Redis on localhost:6379 that may not be yours."
        yield Warning(problem, hint, id="echomq_django.W005")
    if find_spec("croniter") is None:
        problem = "croniter is not installed: no schedule with a cron expression is fired."
        yield Warning(problem, "Install django-q2[croniter].", id="echomq_django.W007")


@register(Tags.caches)
def check_caches(**kwargs: Any) -> list[CheckMessage]:
    """Warn of ordinary caches in the database that holds jobs: their `clear()` deletes everything there."""
    servers = {_server(entry): name for name, entry in settings.CACHES.items() if is_bus_cache(entry)}
    hint = "Give the jobs a server of their own, or at least another database number."
    return [
        Warning(
            f"CACHES[{name!r}] and CACHES[{servers[server]!r}], which holds jobs, are the same database of one server.",
            hint,
            id="echomq_django.W006",
        )
        for name, entry in settings.CACHES.items()
        if not is_bus_cache(entry) and (server := _server(entry)) and server in servers
    ]


@register(TAG, deploy=True)
def check_servers(**kwargs: Any) -> list[CheckMessage]:
    """Warn of a server that can't keep what the queue promises, or that may not be asked."""
    return [problem for alias in conf.aliases() for problem in server_problems(alias)]


def server_problems(alias: str) -> Iterator[CheckMessage]:
    """Yield what is wrong with the server of `TASKS[alias]`, or can't be verified."""
    try:
        bus = get_bus(alias)
        client = bus.client()
        check_server(client)
    except UnsupportedServer as error:
        yield Warning(f"TASKS[{alias!r}]: {error}.", id="echomq_django.W011")
    except EchoMQError as error:
        yield Warning(f"TASKS[{alias!r}]: the server can't be checked: {error}", id="echomq_django.W010")
    else:
        with client:
            yield from _memory_problems(bus, client)
            yield from _persistence_problems(bus, client)


def _memory_problems(bus: Bus, client: redis.Redis) -> Iterator[CheckMessage]:
    policy = _ask(client, "INFO", "memory").get("maxmemory_policy")
    if policy is None:
        yield _unknown(bus, "maxmemory-policy")
    elif policy != "noeviction":
        problem = f"The server at {bus.address()} evicts keys when its memory is full (maxmemory-policy {policy})."
        hint = "Set maxmemory-policy to noeviction: an evicted job is lost."
        yield Warning(problem, hint, id="echomq_django.W012")


def _persistence_problems(bus: Bus, client: redis.Redis) -> Iterator[CheckMessage]:
    log, snapshots = (
        _ask(client, "INFO", "persistence").get("aof_enabled"),
        _ask(client, "CONFIG GET", "save").get("save"),
    )
    if log == 1:
        if _ask(client, "CONFIG GET", "appendfsync").get("appendfsync") == "everysec":
            problem = f"The server at {bus.address()} syncs its log once a second: a crash may lose the last jobs."
            yield Info(problem, "appendfsync always loses none, and costs throughput.", id="echomq_django.I014")
    elif log is None or snapshots is None:
        yield _unknown(bus, "persistence")
    else:
        lost = "the jobs since the last snapshot" if snapshots else "every job"
        problem = f"The server at {bus.address()} keeps no append-only log: a restart loses {lost}."
        yield Warning(problem, "Set appendonly to yes.", id="echomq_django.W013")


def _unknown(bus: Bus, what: str) -> CheckMessage:
    problem = f"The {what} of the server at {bus.address()} could not be verified: this user may not ask for it."
    hint = "Make sure of it yourself: maxmemory-policy noeviction and appendonly yes."
    return Warning(problem, hint, id="echomq_django.W015")


def _ask(client: redis.Redis, command: str, what: str) -> Mapping[str, Any]:
    # Managed servers forbid or rename these commands.
    try:
        return cast("dict[str, Any]", client.info(what) if command == "INFO" else client.config_get(what))
    except redis.RedisError:
        return {}


def _server(entry: Mapping[str, Any]) -> tuple[Any, ...] | None:
    try:
        url: Mapping[str, Any] = parse_url(location(entry))
    except (KeyError, ValueError, TypeError, AttributeError, StopIteration):
        return None
    host = url.get("host", "localhost").replace("localhost", "127.0.0.1")
    return (url["path"] if "path" in url else (host, url.get("port", 6379)), url.get("db", 0))
