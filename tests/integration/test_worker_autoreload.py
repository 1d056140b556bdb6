"""`emq_worker --autoreload`: a worker that is replaced when the code of its project changes."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from echomq_django.bus import ids, jobs
from echomq_django.bus.jobs import NewJob
from echomq_django.bus.message import Message
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import State
from tests.chaos import ledger, seen
from tests.chaos.crew import Crew, Worker
from tests.chaos.waiting import until

pytest_plugins = ["tests.chaos.fixtures"]
pytestmark = pytest.mark.parametrize("lease", [60.0])

USAGE, FORCED = 2, 3

SETTINGS = """
from tests.chaos.settings import *
from tests.chaos.settings import INSTALLED_APPS as SHARED

INSTALLED_APPS = [*SHARED, "bakery"]
"""

TASKS = """
from bakery.oven import OVEN
from echomq_django import task
from tests.chaos import ledger
from tests.chaos.tasks import pass_through


@task(takes_context=True)
def bake(context, gate):
    ledger.note_start(context.job_id)
    pass_through(gate)
    return OVEN
"""


class Project:
    """A project with one app, whose code can be changed."""

    def __init__(self, directory: Path, crew: Crew) -> None:
        self._crew, self._directory, self._app = crew, directory, directory / "bakery"
        self._app.mkdir()
        (self._app / "__init__.py").touch()
        (directory / "bakery_settings.py").write_text(SETTINGS)
        (self._app / "tasks.py").write_text(TASKS)
        self.write('OVEN = "first"')

    def write(self, code: str) -> None:
        """Change a module of the app at once: an editor replaces the file, too."""
        new = self._app / "oven.new"
        new.write_text(code)
        new.replace(self._app / "oven.py")

    def start(self, *options: str, debug: str = "1") -> Worker:
        """Start a worker that watches the project."""
        path = f"{self._directory}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        names = {"DJANGO_SETTINGS_MODULE": "bakery_settings", "PYTHONPATH": path, "EMQ_TEST_DEBUG": debug}
        return self._crew.start("--autoreload", *options, **names)


@pytest.fixture
def project(crew: Crew, tmp_path: Path) -> Project:
    """A project whose app says `first`."""
    return Project(tmp_path, crew)


@pytest.fixture
def bake(queue: Queue, gate: Path) -> Callable[[], str]:
    """Return what enqueues a job of the project, which ends when the gate is open."""

    def enqueue() -> str:
        job_id = ids.mint(queue.name)
        payload = json.dumps([[str(gate)], {}]).encode()
        jobs.enqueue(queue, [NewJob(job_id, Message("bakery.tasks.bake", payload).pack())])
        return job_id

    return enqueue


def result(queue: Queue, job_id: str) -> Any:
    """Wait for the end of a job and return its attempts and its result."""
    [end] = seen.done(queue, job_id)
    return end.attempts, json.loads(end.value)


def test_a_change_lets_the_running_job_finish_and_the_next_one_has_the_new_code(
    queue: Queue, project: Project, gate: Path, bake: Callable[[], str]
) -> None:
    """C67, rq/django-rq#262."""
    running = bake()
    worker = project.start()
    until(lambda: ledger.starts(running))
    waiting = bake()

    project.write('OVEN = "second one"')
    worker.logged("oven.py changed").logged("stopping")
    gate.touch()

    assert result(queue, running) == (1, "first")
    assert result(queue, waiting) == (1, "second one")
    assert worker.stop() == 0


def test_a_change_hands_a_job_back_that_does_not_finish_in_time(
    queue: Queue, project: Project, gate: Path, bake: Callable[[], str]
) -> None:
    """C67, rq/django-rq#262."""
    running = bake()
    worker = project.start("--grace", "0.2")
    until(lambda: ledger.starts(running))

    project.write('OVEN = "second one"')
    until(lambda: ledger.starts(running) == 2)
    assert seen.row(queue, running).stalled == 0
    gate.touch()

    assert result(queue, running) == (2, "second one")
    assert worker.stop() == 0


def test_a_syntax_error_is_shown_and_waited_out(
    queue: Queue, project: Project, gate: Path, bake: Callable[[], str]
) -> None:
    """C67, rq/django-rq#262."""
    gate.touch()
    worker = project.start().ready()

    project.write("OVEN = (")
    worker.logged("SyntaxError").logged("waiting until a file changes")
    waiting = bake()
    assert worker.is_running
    assert seen.is_in(queue, waiting, State.PENDING)
    project.write('OVEN = "third and last"')

    assert result(queue, waiting) == (1, "third and last")
    assert worker.stop() == 0


@pytest.mark.parametrize("everybody", [False, True], ids=["the reloader alone", "all processes"])
def test_a_stop_lets_the_running_job_finish(
    queue: Queue, project: Project, gate: Path, bake: Callable[[], str], everybody: bool
) -> None:
    running = bake()
    worker = project.start()
    until(lambda: ledger.starts(running))

    (worker.tell_all if everybody else worker.tell)(signal.SIGINT)
    worker.logged("stopping")
    gate.touch()

    assert worker.exit_code() == 0
    assert result(queue, running) == (1, "first")


def test_the_second_request_to_stop_hands_what_runs_back_at_once(
    queue: Queue, project: Project, bake: Callable[[], str]
) -> None:
    running = bake()
    worker = project.start("--grace", "600")
    until(lambda: ledger.starts(running))

    worker.tell(signal.SIGTERM)
    worker.logged("stopping")
    worker.tell(signal.SIGTERM)

    assert worker.exit_code() == FORCED
    assert seen.is_in(queue, running, State.PENDING)


def test_a_worker_with_nothing_left_to_do_leaves(
    queue: Queue, project: Project, gate: Path, bake: Callable[[], str]
) -> None:
    gate.touch()
    done = bake()

    assert project.start("--burst").exit_code() == 0
    assert seen.is_done(queue, done)


def test_a_project_without_debug_is_refused(project: Project) -> None:
    """C67, rq/django-rq#262."""
    worker = project.start(debug="")

    assert worker.exit_code() == USAGE
    assert "--autoreload is for development: it needs DEBUG = True" in worker.log
