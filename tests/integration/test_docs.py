"""What the documentation shows is done: its Python runs, its settings are accepted, its commands take their options."""

import re
import sys
from collections.abc import Iterator
from copy import deepcopy
from importlib import import_module
from math import inf
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest
from django.apps import AppConfig
from django.core import checks
from django.core.management import get_commands, load_command_class
from pytest_django import Settings

from echomq_django import conf, middleware
from echomq_django.bus import jobs
from echomq_django.bus.jobs import Completion
from echomq_django.connection import get_bus, is_bus_cache
from echomq_django.embedded import Valkey
from echomq_django.tasks import resolve
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import Ended, Held
from echomq_django.worker.job import Job
from tests.integration.doc_blocks import EVERYWHERE, PAGES, ROOT, Block, blocks, own_test

OTHER_LIBRARIES = ROOT / "docs" / "coming-from"
WRONG = (NameError, AttributeError, TypeError, ImportError)  # what a page that is out of date raises in a handler
READERS = {"CACHES", "TASKS", "Q_CLUSTER", "MIDDLEWARE"}  # settings that a page finds and may change

to_run = [page for page in PAGES if not own_test(page) and any(block.language == "python" for block in blocks(page))]
calling = [block for block in EVERYWHERE if any(block.commands())]


def where(value: Any) -> str:
    if isinstance(value, Block):
        return f"{value.page.relative_to(ROOT)}:{value.line}"
    return str(value.relative_to(ROOT))


class Page:
    """A page that is being read: its names, its modules, and the settings that it has changed."""

    def __init__(self, page: Path, settings: Settings, url: str) -> None:
        self.path, self._name = page, "page_" + re.sub(r"\W", "_", page.stem)
        self._settings, self._url = settings, url
        self.names = self.module(self._name).__dict__
        self.names["run_jobs"] = run_jobs

    def module(self, path: str) -> ModuleType:
        parts = path.split(".")
        for name in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
            if name not in sys.modules:
                made = ModuleType(name)
                made.__path__ = []
                sys.modules[name] = made
        return import_module(path)

    def read(self, block: Block) -> None:
        resolve.cache_clear()  # the block may define a task anew
        if block.module.split(".")[-1] == "settings":
            self._change_settings(block)
            return
        before = dict(self.names)
        self.names["__name__"] = block.module or self._name
        block.run(self.names)
        if block.module:
            new = {name: value for name, value in self.names.items() if before.get(name, before) is not value}
            self.module(block.module).__dict__.update(new)

    def _change_settings(self, block: Block) -> None:
        found: dict[str, Any] = {name: deepcopy(getattr(self._settings, name)) for name in READERS}
        namespace = {**deepcopy(found), "INSTALLED_APPS": []}
        block.run(namespace)
        for app in namespace["INSTALLED_APPS"]:
            AppConfig.create(app)
        for name in READERS:
            if namespace[name] != found[name]:
                setattr(self._settings, name, namespace[name])
        problems = [one for one in checks.run_checks() if one.level >= checks.WARNING]
        assert not problems, problems
        for alias in conf.aliases():
            middleware.stack(alias)
        caches = deepcopy(self._settings.CACHES)
        for entry in caches.values():
            if is_bus_cache(entry):
                entry["LOCATION"] = self._url
        self._settings.CACHES = caches


@pytest.fixture
def page(request: pytest.FixtureRequest, emq: Settings, valkey: Valkey) -> Iterator[Page]:
    before = set(sys.modules)
    yield Page(request.param, emq, valkey.url)
    resolve.cache_clear()
    for name in set(sys.modules) - before:
        if not getattr(sys.modules[name], "__file__", None):
            del sys.modules[name]


def run_jobs() -> None:
    """Run what is pending, as a worker does. An error that only a page out of date makes is raised."""
    executor, ends = Executor("default", "docs"), SimpleQueue[Ended]()
    for queue in get_bus().queues() * 2:
        while rows := jobs.claim(queue, "docs", jobs.new_nonce(), 50):
            for row in rows:
                ended = executor.run(Held(queue, 0, row, inf, 0.0), ends.put) or ends.get(timeout=10)
                assert isinstance(ended.job, Job), f"{row.job_id} can't be run"
                if isinstance(ended.job.error, WRONG):
                    raise ended.job.error
                if isinstance(ended.end, Completion):
                    jobs.complete(queue, "docs", [ended.end])


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("page", to_run, indirect=True, ids=where)
def test_the_python_of_a_page_runs_and_so_do_the_jobs_that_it_enqueues(page: Page) -> None:
    for block in blocks(page.path):
        if block.language == "python" and not block.why:
            page.read(block)

    run_jobs()


@pytest.mark.parametrize("block", calling, ids=where)
def test_commands_exist_and_take_the_options_that_a_page_gives_them(block: Block) -> None:
    for name, *words in block.commands():
        app = get_commands()[name]
        load_command_class(app, name).create_parser("manage.py", name).parse_args(words)


@pytest.mark.parametrize("page", [page for page in PAGES if own_test(page)], ids=where)
def test_a_page_that_another_test_is_to_run_is_read_there(page: Path) -> None:
    assert page.name in (ROOT / own_test(page)).read_text()


def test_hardly_any_block_is_not_run_and_each_of_those_says_why() -> None:
    ours = [block for block in EVERYWHERE if OTHER_LIBRARIES not in block.page.parents]

    assert [where(block) for block in ours if block.why][2:] == []
