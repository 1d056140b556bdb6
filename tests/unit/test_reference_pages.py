"""The pages of reference are complete: whatever can be raised, sent or set stands on one of them."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from django.dispatch import Signal

from echomq_django import conf, exceptions, signals
from echomq_django.tasks import TaskOptions
from echomq_django.worker.backoff import default_backoff

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "echomq_django"
DOCS = ROOT / "docs"

JITTER = 0.15


def first_cells(page: str) -> set[str]:
    """Return the code in the first cells of the tables of a page."""
    rows = re.findall(r"^\| (.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


def test_every_exception_stands_on_the_page_of_errors() -> None:
    base = exceptions.EchoMQError
    raised = {name for name, one in vars(exceptions).items() if inspect.isclass(one) and issubclass(one, base)}
    abstract = {"EchoMQError", "BusError"}

    assert raised - first_cells("reference/errors.md") == abstract
    assert all(f"`{name}`" in (DOCS / "reference/errors.md").read_text() for name in abstract)


def test_every_system_check_stands_on_the_page_of_errors_and_no_other() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    told = {name for name in first_cells("reference/errors.md") if name.startswith("echomq_django.")}

    assert told == set(re.findall(r'id="(echomq_django\.[EIW]\d+)"', code))


def test_every_signal_stands_on_the_page_of_signals() -> None:
    sent = {name for name, one in vars(signals).items() if isinstance(one, Signal)}

    assert sent <= first_cells("reference/signals.md")


def test_every_setting_and_every_option_of_a_task_stands_on_the_page_of_settings() -> None:
    options = {option.name for option in fields(TaskOptions)}
    settings = {"cache", "prefix", "queues", "middleware", *conf.QUEUE_KEYS}

    assert options | settings <= first_cells("reference/settings.md")


@pytest.mark.parametrize("page", ["how-to/retries.md", "explanation/life-of-a-job.md"])
def test_the_table_of_the_back_off_has_its_numbers(page: str) -> None:
    rows = re.findall(r"^\| (\d) \| (\d+) s \|", (DOCS / page).read_text(), re.MULTILINE)

    assert [int(failure) for failure, _ in rows] == [1, 2, 3, 4]
    for failure, seconds in rows:
        assert default_backoff(int(failure)) == pytest.approx(float(seconds), rel=JITTER + 0.001)
