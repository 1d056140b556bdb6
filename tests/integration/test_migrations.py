"""The tables fit the models on every database and in every project's configuration."""

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.test import override_settings

from echomq_django.models import DeadJob, OutboxJob

APP = "echomq_django"


@pytest.mark.parametrize("auto_field", ["AutoField", "BigAutoField", "SmallAutoField"])
@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("language", ["en", "de", "ar"])
@pytest.mark.django_db
def test_no_project_is_asked_for_a_migration_of_its_own(auto_field: str, use_tz: bool, language: str) -> None:
    changes = {"DEFAULT_AUTO_FIELD": f"django.db.models.{auto_field}", "USE_TZ": use_tz, "LANGUAGE_CODE": language}
    with override_settings(**changes):
        call_command("makemigrations", APP, check=True, dry_run=True, stdout=StringIO())


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
