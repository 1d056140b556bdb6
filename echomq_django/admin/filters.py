"""Filters whose choices cost a bounded read, however many dead jobs there are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from echomq_django.floor.display import escaped
from echomq_django.models import DeadJob

_RECENT = 1_000
_COLUMNS = ("queue", "reason", "task", "error_class")


class RecentValues(admin.SimpleListFilter):
    """Offers the values of one column among the latest thousand deaths, and the one that is chosen."""

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> Iterable[tuple[str, str]]:
        """Return the choices in alphabetical order; all filters of a page share one query."""
        column = _COLUMNS.index(str(self.parameter_name))
        values = {row[column] for row in _recent(request, model_admin)} | {self.value()}
        return [(value, value) for value in sorted(filter(None, values))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> QuerySet[DeadJob]:
        """Return the rows with the chosen value."""
        value = self.value()
        return queryset.filter(**{str(self.parameter_name): escaped(value)}) if value else queryset


class QueueFilter(RecentValues):
    """By queue."""

    title, parameter_name = _("queue"), "queue"


class ReasonFilter(RecentValues):
    """By what ended the job."""

    title, parameter_name = _("reason"), "reason"


class TaskFilter(RecentValues):
    """By task."""

    title, parameter_name = _("task"), "task"


class ErrorClassFilter(RecentValues):
    """By the class of the exception."""

    title, parameter_name = _("error class"), "error_class"


class DiedSinceFilter(admin.SimpleListFilter):
    """By the age of the death."""

    title, parameter_name = _("time of death"), "since"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> Iterable[tuple[str, Any]]:
        """Return the ages, in hours."""
        return [
            ("1", _("In the last hour")),
            ("24", _("In the last 24 hours")),
            ("168", _("In the last 7 days")),
            ("720", _("In the last 30 days")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> QuerySet[DeadJob]:
        """Return the deaths that are younger."""
        hours = self.value()
        if hours not in dict(self.lookup_choices):
            return queryset
        return queryset.filter(died_at__gte=timezone.now() - timedelta(hours=int(hours or 0)))


def _recent(request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, ...]]:
    known: list[tuple[str, ...]] | None = getattr(request, "recent_deaths", None)
    if known is None:
        latest = model_admin.get_queryset(request).order_by("-died_at").values("pk")[:_RECENT]
        known = list(DeadJob.objects.using(latest.db).filter(pk__in=latest).values_list(*_COLUMNS).distinct())
        request.recent_deaths = known  # type: ignore[attr-defined]
    return known
