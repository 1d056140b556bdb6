"""System checks name what is wrong before it hurts; those that ask a server warn and never fail."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
import redis
from django.core import checks
from django.core.management import call_command
from pytest_django import Settings

from echomq_django.embedded import Valkey
from tests.integration.wire import Impostor

OURS = {"BACKEND": "echomq_django.backend.EchoMQBackend"}
LOCMEM = "django.core.cache.backends.locmem.LocMemCache"
BUS = "echomq_django.cache.BusCache"


def found(*, deploy: bool = False) -> dict[str, checks.CheckMessage]:
    """Return our messages by the end of their id."""
    messages = checks.run_checks(include_deployment_checks=deploy)
    return {str(one.id).rpartition(".")[2]: one for one in messages if str(one.id).startswith("echomq_django.")}


def test_the_settings_of_the_readme_have_no_problem() -> None:
    assert found() == {}


@pytest.mark.parametrize("options", [{"leese": 5}, {"cache": "emg"}], ids=str)
def test_wrong_settings_are_an_error(settings: Settings, options: dict[str, Any]) -> None:
    settings.TASKS = {"default": {**OURS, "OPTIONS": options}}

    assert "did you mean" in found()["E001"].msg


def test_a_cache_without_a_location_is_an_error(settings: Settings) -> None:
    settings.CACHES = {**settings.CACHES, "emq": {"BACKEND": BUS}}

    assert "CACHES['emq'] has no LOCATION" in found()["E001"].msg


@pytest.mark.parametrize("backend", [LOCMEM, "django_redis.cache.RedisCache"])
def test_a_cache_that_does_not_refuse_is_an_error(settings: Settings, backend: str) -> None:
    settings.CACHES = {**settings.CACHES, "emq": {"BACKEND": backend, "LOCATION": "redis://127.0.0.1/0"}}

    assert found()["E002"].msg == "CACHES['emq'] is no BusCache."


def test_the_app_itself_has_to_be_installed(settings: Settings) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "echomq_django"]

    assert "echomq_django is not in INSTALLED_APPS" in found()["E003"].msg


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="this Django has its own Tasks framework")
def test_before_django_6_the_framework_has_to_be_installed_too(settings: Settings) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]

    assert found()["E004"].msg == "'django_tasks' is not in INSTALLED_APPS."


@pytest.mark.skipif(django.VERSION >= (6, 0), reason="this Django has its own Tasks framework")
def test_before_django_6_a_missing_package_is_named() -> None:
    script = "import sys; sys.modules['django_tasks'] = None; import echomq_django.framework"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert "ImproperlyConfigured: Django 5.2 has no Tasks framework of its own: install django-tasks" in done.stderr
    assert "echomq-django[tasks]" in done.stderr


def test_django_q2_without_settings_is_a_warning(settings: Settings) -> None:
    del settings.Q_CLUSTER

    assert found()["W005"].hint.startswith("Set Q_CLUSTER = {'orm': 'default'")


@pytest.mark.parametrize(("cluster", "warned"), [({"workers": 1}, True), ({"redis": {}}, False), ({"orm": "x"}, False)])
def test_django_q2_without_a_broker_of_its_own_is_a_warning(
    settings: Settings, cluster: dict[str, Any], warned: bool
) -> None:
    settings.Q_CLUSTER = cluster

    assert ("W005" in found()) is warned


def test_a_missing_croniter_is_a_warning() -> None:
    script = """
import sys
sys.modules["croniter"] = None
import django
from django.core.management import call_command
django.setup()
call_command("check")
from echomq_django.cron import Cron
Cron("* * * * *", None)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert "echomq_django.W007" in done.stderr
    assert "InvalidSetting: croniter is not installed: install django-q2[croniter]" in done.stderr


@pytest.mark.parametrize(
    ("jobs", "cache", "shared"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0", True),
        ("redis://127.0.0.1/0", "redis://localhost:6379", True),
        ("redis://:pw@127.0.0.1/0", ["redis://127.0.0.1:6379/0", "redis://replica/0"], True),
        ("unix:///run/redis.sock", "unix:///run/redis.sock?db=0", True),
        ("redis://127.0.0.1/0", "redis://127.0.0.1/1", False),
        ("redis://127.0.0.1/0", "redis://127.0.0.1:6380/0", False),
        ("redis://127.0.0.1/0", "a table", False),
        ("redis://127.0.0.1/0", "", False),
    ],
)
def test_an_ordinary_cache_in_the_database_of_the_jobs_is_a_warning(
    settings: Settings, jobs: str, cache: Any, shared: bool
) -> None:
    settings.CACHES = {
        "default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": cache},
        "emq": {"BACKEND": BUS, "LOCATION": jobs},
        "again": {"BACKEND": BUS, "LOCATION": jobs},
    }

    messages = found()
    assert ("W006" in messages) is shared
    if shared:
        assert "CACHES['default'] and CACHES['" in messages["W006"].msg


@pytest.fixture
def persistent(settings: Settings, tmp_path: Path) -> Iterator[Valkey]:
    """A server that keeps what the queue promises."""
    with Valkey(tmp_path / "valkey", persist=True) as server:
        settings.CACHES = {**settings.CACHES, "emq": {"BACKEND": BUS, "LOCATION": server.url}}
        settings.TASKS = {"default": OURS}
        yield server


def configure(server: Valkey, **config: str) -> None:
    with redis.Redis.from_url(server.url) as admin:
        for name, value in config.items():
            admin.config_set(name.replace("_", "-"), value)


def test_a_server_that_keeps_its_promises_has_no_problem(persistent: Valkey) -> None:
    assert found(deploy=True) == {}


def test_without_deploy_no_server_is_asked(settings: Settings) -> None:
    settings.CACHES = {**settings.CACHES, "emq": {"BACKEND": BUS, "LOCATION": "redis://127.0.0.1:1/0"}}

    assert found() == {}
    assert "no answer from the server" in found(deploy=True)["W010"].msg


def test_a_server_that_evicts_is_a_warning(persistent: Valkey) -> None:
    configure(persistent, maxmemory_policy="allkeys-lru")

    message = found(deploy=True)["W012"]
    assert f"redis://127.0.0.1:{persistent.port}/0 evicts keys when its memory is full" in message.msg
    assert "allkeys-lru" in message.msg
    assert message.level == checks.WARNING


def test_a_log_that_is_synced_once_a_second_is_an_information(persistent: Valkey) -> None:
    configure(persistent, appendfsync="everysec")

    message = found(deploy=True)["I014"]
    assert message.level == checks.INFO


@pytest.mark.parametrize(("save", "lost"), [("", "every job"), ("60 1", "the jobs since the last snapshot")])
def test_a_server_without_a_log_is_a_warning(persistent: Valkey, save: str, lost: str) -> None:
    configure(persistent, appendonly="no", save=save)

    assert f"a restart loses {lost}" in found(deploy=True)["W013"].msg


def test_a_user_who_may_ask_nothing_is_told_that_nothing_was_verified(persistent: Valkey, settings: Settings) -> None:
    with redis.Redis.from_url(persistent.url) as admin:
        admin.acl_setuser(
            "ada", enabled=True, passwords=["+pw"], categories=["+@all"], commands=["-info", "-config"], keys=["*"]
        )
    options = {"USERNAME": "ada", "PASSWORD": "pw"}
    settings.CACHES = {**settings.CACHES, "emq": {**settings.CACHES["emq"], "OPTIONS": options}}

    assert "could not be verified: this user may not ask for it" in found(deploy=True)["W015"].msg
    call_command("check", deploy=True, fail_level="ERROR")


def test_an_old_server_is_a_warning(settings: Settings) -> None:
    with Impostor(redis_version="6.2.14") as server:
        settings.CACHES = {**settings.CACHES, "emq": {"BACKEND": BUS, "LOCATION": server.url}}

        assert "redis 6.2.14, the queue needs 7.0" in found(deploy=True)["W011"].msg


def test_importing_the_package_loads_no_models() -> None:
    script = """
import sys
import echomq_django
assert not [name for name in sys.modules if name.startswith(("django.", "redis", "echomq_django."))], sys.modules
from django.conf import settings
settings.configure(
    TASKS={"default": {"BACKEND": "echomq_django.backend.EchoMQBackend"}},
    CACHES={"emq": {"BACKEND": "echomq_django.cache.BusCache", "LOCATION": "redis://127.0.0.1:1/0"}},
)
from echomq_django import JobContext, Task, enqueue_many, task
assert "echomq_django.models" not in sys.modules
"""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60)

    assert done.returncode == 0, done.stderr
