"""Servers and commands as child processes: for tests, the demo and development, never for production."""

from echomq_django.embedded.commands import DjangoProcess, command_line
from echomq_django.embedded.postgres import Postgres
from echomq_django.embedded.programs import SERVER_VARIABLE
from echomq_django.embedded.terminal import Terminal, leave_on_signals
from echomq_django.embedded.valkey import Valkey

__all__ = [
    "SERVER_VARIABLE",
    "DjangoProcess",
    "Postgres",
    "Terminal",
    "Valkey",
    "command_line",
    "leave_on_signals",
]
