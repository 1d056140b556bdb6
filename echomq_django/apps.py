"""The Django app: refuses impossible settings at start and registers the checks."""

from django.apps import AppConfig

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
