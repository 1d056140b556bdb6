"""The tables fit the models on every database and in every project's configuration."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from echomq_django.models import DeadJob, OutboxJob

APP = "echomq_django"
ROOT = Path(__file__).parents[2]


MAKEMIGRATIONS = """
import sys

import django
from django.conf import settings
from django.core.management import call_command

auto_field, use_tz, language = sys.argv[1:]
settings.configure(
    SECRET_KEY="only for tests",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "echomq_django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD=auto_field,
    USE_TZ=use_tz == "True",
    LANGUAGE_CODE=language,
    TASKS={},
)
django.setup()
from django.utils import translation
translation.activate(language)
call_command("makemigrations", check=True, dry_run=True)
"""


@pytest.mark.parametrize(
    ("auto_field", "use_tz", "language"),
    [
        ("django.db.models.AutoField", True, "de"),
        ("django.db.models.AutoField", False, "en"),
        ("django.db.models.BigAutoField", False, "ar"),
        ("django.db.models.SmallAutoField", True, "pt-br"),
        ("keys.ProjectKey", True, "en"),
        ("keys.ProjectKey", False, "ja"),
    ],
)
def test_no_project_is_asked_for_a_migration_of_its_own(
    auto_field: str, use_tz: bool, language: str, tmp_path: Path
) -> None:
    """C31, Koed00/django-q#584. Models take the settings when they are loaded, so each project is its own process."""
    keys = "from django.db.models import BigAutoField\n\nclass ProjectKey(BigAutoField):\n    pass\n"
    (tmp_path / "keys.py").write_text(keys)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", MAKEMIGRATIONS, auto_field, str(use_tz), language]

    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    assert done.stdout == "No changes detected\n", done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.django_db(transaction=True)
def test_the_tables_come_and_go_on_postgresql() -> None:
    came_and_went("default")


def test_the_tables_come_and_go_on_sqlite(tmp_path: Any, django_db_blocker: Any) -> None:
    connections.settings["sqlite"] = connections.settings["default"] | {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "db.sqlite3"),
        "OPTIONS": {},
    }
    try:
        with django_db_blocker.unblock():
            came_and_went("sqlite")
    finally:
        connections["sqlite"].close()
        del connections["sqlite"]
        del connections.settings["sqlite"]


@pytest.mark.django_db
def test_nobody_can_be_given_the_right_to_edit_or_delete() -> None:
    for model, codenames in {
        "deadjob": {"view_deadjob", "requeue_deadjob", "discard_deadjob"},
        "outboxjob": {"view_outboxjob"},
        "lease": {"view_lease"},
    }.items():
        found = Permission.objects.filter(content_type__app_label=APP, content_type__model=model)
        assert {permission.codename for permission in found} == codenames


def came_and_went(alias: str) -> None:
    connection = connections[alias]
    tables = {DeadJob._meta.db_table, OutboxJob._meta.db_table}
    MigrationExecutor(connection).migrate([(APP, "0001_initial")])
    assert tables <= set(connection.introspection.table_names())
    assert "echomq_django_lease" not in connection.introspection.table_names()
    MigrationExecutor(connection).migrate([(APP, None)])
    assert not tables & set(connection.introspection.table_names())
    MigrationExecutor(connection).migrate([(APP, "0001_initial")])
