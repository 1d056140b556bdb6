"""A task that only the workers of a newer release know."""

import os

from echomq_django import task
from echomq_django.context import JobContext
from tests.chaos import ledger

if os.environ.get("EMQ_TEST_RELEASE") == "new":

    @task(takes_context=True)
    def new(context: JobContext) -> None:
        """Have an effect."""
        ledger.note_start(context.job_id)
        ledger.note_effect(context.job_id)
