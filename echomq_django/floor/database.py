"""The one database of the floor, whichever the project's router gives."""

from typing import TypeVar

from django.db import connections, models, router

from echomq_django.models import DeadJob

_M = TypeVar("_M", bound=models.Model)


def alias() -> str:
    """Return the alias of the database; dead letters and outbox share it, since one transaction writes both."""
    return router.db_for_write(DeadJob)


def rows(model: type[_M]) -> models.QuerySet[_M]:
    """Return all rows of `model` on the floor's database."""
    return model._default_manager.using(alias())


def unclaimed(queryset: models.QuerySet[_M]) -> models.QuerySet[_M]:
    """Lock the rows of `queryset` that nobody else has locked; databases without such locks serialise writers."""
    skips = connections[queryset.db].features.has_select_for_update_skip_locked
    return queryset.select_for_update(skip_locked=skips)
