"""The page on testing, done to the letter: its blocks are the files of a new project."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from echomq_django.embedded import Valkey

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "testing.md").read_text()
BLOCKS = re.findall(r"```python\n# (shop/\S+)\n(.*?)```", PAGE, re.DOTALL)

SETTINGS = """
import os
import django

SECRET_KEY = "only for tests"
ROOT_URLCONF = "shop.urls"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "echomq_django", "shop"]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "emq": {
        "BACKEND": "echomq_django.cache.BusCache",
        "LOCATION": os.environ.get("SHOP_URL", "redis://127.0.0.1:1"),
    },
}
TASKS = {"default": {"BACKEND": "echomq_django.backend.EchoMQBackend", "OPTIONS": {"cache": "emq"}}}
"""
URLS = """
from django.urls import path
from shop.views import sign_up

urlpatterns = [path("sign-up/", sign_up)]
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run Python in a project that consists of the page's blocks, and return what it said."""
    for name, text in [*BLOCKS, ("shop/settings.py", SETTINGS), ("shop/urls.py", URLS), ("shop/__init__.py", "")]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "EMQ_TEST"))}
        where = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), **environment}
        command = [sys.executable, "-W", "error::ResourceWarning", *words]
        return subprocess.run(command, cwd=tmp_path, env={**inherited, **where}, capture_output=True, text=True)

    return run


def test_every_file_of_the_page_is_tried_here() -> None:
    tried = ["tasks.py", "views.py", "test_settings.py", "tests_inline.py", "tests_real.py", "test_welcome.py"]
    assert [name for name, _ in BLOCKS] == [f"shop/{name}" for name in tried]
    assert PAGE.count("```python") == len(tried)


def test_jobs_at_once_in_test_cases_with_and_without_a_commit(run: Run) -> None:
    """C33, wagtail/wagtail#12787."""
    done = run("-m", "django", "test", "--settings=shop.test_settings", "--pattern=tests_inline.py")

    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_jobs_on_a_real_server_in_plain_test_cases_leave_no_key(
    run: Run, valkey: Valkey, redis_client: redis.Redis
) -> None:
    """C33, wagtail/wagtail#12787."""
    command = ["-m", "django", "test", "--settings=shop.settings", "--pattern=tests_real.py"]
    done = run(*command, SHOP_URL=valkey.url)

    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr
    assert redis_client.keys("*") == []


PYTEST = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:valkey", "-q", "--ds=shop.settings"]


def pytest_of_the_project(run: Run, *options: str, **environment: str) -> str:
    """Run pytest, which finds the plugin by its entry point."""
    done = run(*PYTEST, *options, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_fixtures_start_a_server_and_processes_in_parallel_never_meet(run: Run) -> None:
    assert "2 passed" in pytest_of_the_project(run, "-n", "2", "shop/test_welcome.py")


def test_the_fixtures_use_the_server_of_the_environment_and_leave_no_key(
    run: Run, valkey: Valkey, redis_client: redis.Redis
) -> None:
    assert "2 passed" in pytest_of_the_project(run, "shop/test_welcome.py", EMQ_TEST_URL=valkey.url)
    assert redis_client.keys("*") == []
    assert "cmdstat_evalsha" in redis_client.info("commandstats")


def test_the_plugin_costs_nothing_where_nobody_asks_for_its_fixtures(run: Run, tmp_path: Path) -> None:
    test = "import sys\n\ndef test_nothing_is_loaded():\n    assert not {'django', 'redis'} & sys.modules.keys()\n"
    (tmp_path / "test_plain.py").write_text(test)
    options = ["-p", "no:django", "-p", "no:cacheprovider", "-p", "no:valkey", "-p", "no:randomly", "-q"]
    done = run("-m", "pytest", *options, "test_plain.py")

    assert done.returncode == 0, done.stdout + done.stderr
