"""For the tests of a project: jobs that run at once, or on a real server when the test says so."""

from echomq_django.testing.draining import Drained, drain
from echomq_django.testing.inline import InlineBackend
from echomq_django.testing.isolation import isolated

__all__ = ["Drained", "InlineBackend", "drain", "isolated"]
