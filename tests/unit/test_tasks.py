"""`@task` and the options that it takes, on any backend."""

import copy
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from pytest_django import Settings

import echomq_django
from echomq_django import JobContext, task
from echomq_django.exceptions import InvalidName, InvalidOption, UnknownQueue, UnresolvableTask
from echomq_django.framework import BaseTask, InvalidTask
from echomq_django.framework import Task as DjangoTask
from echomq_django.tasks import UNSET, Task, TaskOptions, redacted, resolve

HERE = __name__


@task
def bare(number: int) -> int:
    return number


@task(
    queue_name="emails",
    priority=7,
    max_failures=2,
    backoff=[1, 2.5],
    retry_on=ValueError,
    give_up_on=(KeyError, TypeError),
    max_stalled=None,
    lease=12.5,
    lane=lambda number: f"user-{number}",
    result_ttl=0,
    durability="memory",
    database=None,
    unique="debounce",
    unique_key=str,
    expires=60,
    redact=["number"],
)
def full(number: int) -> int:
    return number


@task(takes_context=True)
def with_context(context: JobContext, number: int) -> int:
    return number


def many(number: int, *numbers: int) -> None: ...


@task()
async def coroutine(number: int) -> int:
    return number


not_a_task = 5


def test_the_bare_decorator_leaves_all_options_to_the_queue() -> None:
    assert isinstance(bare, Task)
    assert isinstance(bare, DjangoTask)
    assert bare.options == TaskOptions()
    assert bare.options.max_failures is UNSET
    assert (bare.priority, bare.queue_name, bare.backend, bare.run_after) == (0, "default", "default", None)


def test_every_option_is_kept() -> None:
    assert (full.queue_name, full.priority) == ("emails", 7)
    assert full.options == TaskOptions(
        max_failures=2,
        backoff=(1, 2.5),
        retry_on=(ValueError,),
        give_up_on=(KeyError, TypeError),
        max_stalled=None,
        lease=12.5,
        lane=full.options.lane,
        result_ttl=0,
        durability="memory",
        database=None,
        unique="debounce",
        unique_key=str,
        expires=60,
        redact=("number",),
    )


def test_a_task_can_be_called_and_hashed() -> None:
    assert bare.call(3) == 3
    assert coroutine.call(3) == 3
    assert len({bare, full, bare}) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_failure": 1}, "unknown option 'max_failure' of a task; did you mean 'max_failures'"),
        ({"queue": "emails"}, "unknown option 'queue'.*'queue_name'"),
        ({"soft_time_limit": 0}, "soft_time_limit = 0: must be a number of seconds above 0"),
        ({"time_limit": 0}, "time_limit = 0: must be a number of seconds above 0"),
        ({"timeout": 1}, "unknown option 'timeout'"),
        ({"isolated": True}, "unknown option 'isolated' of a task; did you mean 'isolate'"),
        ({"isolate": 1}, "isolate = 1: must be True"),
        ({"unique": True}, "unique = True: must be one of 'start', 'done', 'debounce', or a number of seconds"),
        ({"unique": "never"}, "unique = 'never': must be one of"),
        ({"unique": 0}, "unique = 0: must be one of"),
        ({"unique_key": "user"}, "unique_key = 'user': must be a function"),
        ({"expires": 0}, "expires = 0: must be a number of seconds above 0"),
        ({"redact": "number"}, "redact = 'number': must be a list of names of arguments"),
        ({"max_failures": 0}, "max_failures = 0: must be an integer of at least 1"),
        ({"lease": 0}, "lease = 0: must be a number of seconds above 0"),
        ({"max_stalled": 0}, "max_stalled = 0: must be an integer from 1"),
        ({"result_ttl": -1}, "result_ttl = -1: must be a number of seconds"),
        ({"durability": "floor"}, "comes later: use 'memory'"),
        ({"backoff": -1}, "backoff = -1: must be seconds"),
        ({"backoff": []}, r"backoff = \[\]: must be seconds"),
        ({"backoff": [1, "2"]}, "must be seconds"),
        ({"backoff": "1"}, "must be seconds"),
        ({"retry_on": (ValueError, "KeyError")}, "must be exception classes"),
        ({"give_up_on": int}, "must be exception classes"),
        ({"database": 5}, "must be an alias of DATABASES"),
        ({"lane": 5}, "lane 5"),
        ({"lane": "x" * 200}, "lane"),
        ({"lane": "two\nlines"}, "lane"),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_where_the_task_is_made(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises((InvalidOption, InvalidName), match=complaint):
        task(**options)
    with pytest.raises((InvalidOption, InvalidName), match=complaint):
        bare.using(**options)


def test_run_after_is_no_option_of_the_decorator() -> None:
    with pytest.raises(InvalidOption, match=r"use \.using\(run_after=\.\.\.\)"):
        task(run_after=datetime.now(UTC))  # type: ignore[call-overload]


def test_using_changes_a_copy() -> None:
    due = datetime.now(UTC) + timedelta(hours=1)

    changed = full.using(priority=-5, queue_name="default", run_after=due, max_failures=9, lane="blue", max_stalled=4)

    assert isinstance(changed, Task)
    assert (changed.priority, changed.queue_name, changed.run_after) == (-5, "default", due)
    assert (changed.options.max_failures, changed.options.lane, changed.options.max_stalled) == (9, "blue", 4)
    assert changed.options.backoff == (1, 2.5)
    assert (full.priority, full.options.max_failures) == (7, 2)


def test_using_unset_gives_the_queue_its_say_back() -> None:
    assert full.using(lane=UNSET).options.lane is UNSET  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "takes_context", "names", "places"),
    [
        (lambda user, password: None, False, ["password"], [1, "password"]),
        (lambda context, user, password: None, True, ["user"], [0, "user"]),
        (lambda user, /, *, password: None, False, ["user", "password"], [0, "password"]),
        (lambda *users, password: None, False, ["password"], ["password"]),
        (lambda user, **more: None, False, ["token", "user"], ["token", 0, "user"]),
    ],
)
def test_arguments_are_redacted_wherever_the_function_takes_them(
    function: Any, takes_context: bool, names: list[str], places: list[Any]
) -> None:
    options = TaskOptions().merged({"redact": names})
    found = redacted(SimpleNamespace(func=function, takes_context=takes_context, options=options))
    assert sorted(found, key=str) == sorted(places, key=str)


@pytest.mark.parametrize("name", ["numbers", "nubmer"])
def test_what_could_not_be_redacted_is_refused_where_it_is_said(name: str) -> None:
    complaint = f"redact: '{name}' is no argument of many.*did you mean 'number'"
    with pytest.raises(InvalidOption, match=complaint):
        task(redact=[name])(many)
    with pytest.raises(InvalidOption, match=complaint):
        task(many).using(redact=[name])


@pytest.mark.parametrize(
    "options", [{"retry_on": ValueError}, {"give_up_on": ()}, {"backoff": lambda failures: 1}], ids=list
)
def test_code_can_not_travel_with_one_job(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="only data travels with a job: give it to @task"):
        bare.using(**options)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"queue_name": "emials"}, r"queue 'emials' is not in TASKS\['default'\]\['QUEUES'\]; did you mean 'emails'"),
        ({"priority": 101}, "priority must be a whole number between -100 and 100"),
        ({"priority": -101}, "priority must be"),
        ({"run_after": datetime(2026, 1, 1)}, "aware"),
        ({"run_after": datetime(2300, 1, 1, tzinfo=UTC)}, "must not be later than the year 2200"),
    ],
    ids=str,
)
def test_what_the_backend_can_not_do_is_refused_as_django_does(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidTask, match=complaint):
        bare.using(**changes)


def test_an_unknown_queue_is_also_our_error() -> None:
    with pytest.raises(UnknownQueue):
        bare.using(queue_name="no")


def test_a_nested_function_is_no_task() -> None:
    def nested() -> None: ...

    with pytest.raises(InvalidTask, match="module level"):
        task(nested)


@pytest.mark.parametrize("original", [bare, full, with_context, coroutine], ids=lambda one: one.name)
def test_a_task_survives_pickling_as_itself(original: Task[..., Any]) -> None:
    assert pickle.loads(pickle.dumps(original)) is original
    assert copy.deepcopy(original) is original


def test_pickling_keeps_what_using_changed() -> None:
    changed = full.using(priority=1, max_failures=8)

    assert pickle.loads(pickle.dumps(changed)) == changed


@pytest.mark.parametrize("name", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_options_do_no_harm_on_other_backends(settings: Settings, name: str) -> None:
    framework = DjangoTask.__module__.removesuffix(".base")
    settings.TASKS = {"default": {"BACKEND": f"{framework}.backends.{name}", "QUEUES": ["default", "emails"]}}

    made_here: Task[..., None] = task(max_failures=5, lane="blue")(not_a_task_function)
    result = full.using(priority=0, max_failures=3).enqueue(4)

    assert made_here.options.max_failures == 5
    assert result.args == [4]
    assert result.task == full.using(priority=0, max_failures=3)


def test_a_path_leads_to_its_task() -> None:
    assert resolve(f"{HERE}.bare") is bare


def test_a_task_of_the_framework_s_own_decorator_is_found_too(settings: Settings) -> None:
    plain: BaseTask[..., None] = DjangoTask(
        func=not_a_task_function,
        priority=3,
        queue_name="emails",
        backend="default",
        run_after=None,
        takes_context=False,
    )
    module = ModuleType("a_module_of_somebody_else")
    module.run = plain  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        found = resolve("a_module_of_somebody_else.run")
    finally:
        del sys.modules[module.__name__]

    assert isinstance(found, Task)
    assert (found.func, found.priority, found.queue_name, found.options) == (plain.func, 3, "emails", TaskOptions())


def not_a_task_function() -> None: ...


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        (f"{HERE}.missing", "AttributeError"),
        ("no.such.module.run", "ModuleNotFoundError: No module named 'no'"),
        (f"{HERE}.not_a_task", "is a int and no task: decorate the function with @task"),
        (f"{HERE}.not_a_task_function", "is a function and no task"),
        ("run", "no task at 'run'"),
        ("", "no task at ''"),
        (".run", "no task at"),
    ],
)
def test_a_path_without_a_task_is_refused(path: str, complaint: str) -> None:
    with pytest.raises(UnresolvableTask, match=complaint):
        resolve(path)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes a module that has not been imported yet."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> None:
        (tmp_path / "deployed_later.py").write_text(source)
        sys.modules.pop("deployed_later", None)
        sys.path_importer_cache.pop(str(tmp_path), None)

    return write


def test_a_module_that_fails_to_import_is_the_cause_of_the_refusal(module: Callable[[str], None]) -> None:
    module("1 / 0")

    with pytest.raises(UnresolvableTask, match="ZeroDivisionError") as refusal:
        resolve("deployed_later.run")

    assert isinstance(refusal.value.__cause__, ZeroDivisionError)


def test_a_failure_is_not_remembered(module: Callable[[str], None]) -> None:
    with pytest.raises(UnresolvableTask):
        resolve("deployed_later.run")
    module("from echomq_django import task\n@task\ndef run(): pass\n")

    assert resolve("deployed_later.run").name == "run"
    resolve.cache_clear()


def test_the_package_has_its_public_names_and_no_others() -> None:
    assert {"task", "Task", "enqueue_many", "JobContext"} <= set(dir(echomq_django))
    assert echomq_django.task is task
    with pytest.raises(AttributeError, match="no attribute 'tusk'"):
        echomq_django.tusk  # noqa: B018
