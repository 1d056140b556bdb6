"""The bot as a Django app."""

from django.apps import AppConfig


class BotConfig(AppConfig):
    """A bot that answers commands in jobs."""

    name = "example_project.bot"
    verbose_name = "Echo bot"
