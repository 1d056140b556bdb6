"""The Django app: refuses impossible settings at start, registers the checks, and adds its rows after `migrate`."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.db.migrations import Migration
from django.db.models.signals import post_migrate

from echomq_django import conf


class EchoMQConfig(AppConfig):
    """Durable jobs on Redis or Valkey, with dead letters in the admin."""

    name = "echomq_django"
    verbose_name = "EchoMQ"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Raise `ImproperlyConfigured` for the first setting of the queue that is wrong; nothing is connected."""
        from echomq_django import checks as checks
        from echomq_django.connection import cache_entry

        for alias in conf.aliases():
            cache_entry(conf.load(alias))
        post_migrate.connect(install_duties, sender=self)


def install_duties(using: str, plan: Sequence[tuple[Migration, bool]] = (), **kwargs: Any) -> None:
    """Add the rows of the duties when their table or ours has just come, so that an edit or a delete of them stays."""
    from echomq_django import schedules

    came = {migration.app_label for migration, back in plan if migration.name.startswith("0001_") and not back}
    if came & {"echomq_django", "django_q"} and apps.is_installed("django_q") and schedules.can_be_stored(using):
        schedules.install()
