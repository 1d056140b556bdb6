"""Valkey and PostgreSQL as child processes on 127.0.0.1: for tests, the demo and development, never for production."""

from echomq_django.embedded.postgres import Postgres
from echomq_django.embedded.programs import SERVER_VARIABLE
from echomq_django.embedded.valkey import Valkey

__all__ = ["SERVER_VARIABLE", "Postgres", "Valkey"]
