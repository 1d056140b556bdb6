"""Leases: who holds what right now, and for how long still, read from the server for each page."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from echomq_django import conf
from echomq_django.admin import flow, live, shown
from echomq_django.bus.message import Message
from echomq_django.bus.row import State
from echomq_django.exceptions import EchoMQError
from echomq_django.floor import display
from echomq_django.models import Lease

if TYPE_CHECKING:
    LeaseModelAdmin = admin.ModelAdmin[Lease]
else:
    LeaseModelAdmin = admin.ModelAdmin

_STATES = {
    State.SCHEDULED: _("scheduled"),
    State.PENDING: _("pending"),
    State.ACTIVE: _("active"),
    State.SUSPECT: _("suspect: to be run alone"),
    State.DEAD: _("dead"),
}

_FLOW = ("group", "waits_for", "chain")


class QueueFilter(admin.SimpleListFilter):
    """By queue, of those that the settings list."""

    title, parameter_name = _("queue"), "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """Return the queues of each backend."""
        aliases = conf.aliases()
        return [
            (f"{alias}.{name}", name if len(aliases) == 1 else f"{alias}: {name}")
            for alias in aliases
            for name in conf.load(alias).queues
        ]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Return the leases of the chosen queue."""
        return queryset.narrowed(queue=self.value() or "")


class OverdueFilter(admin.SimpleListFilter):
    """By whether the lease should have ended."""

    title, parameter_name = _("overdue"), "overdue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return the one choice."""
        return [("1", _("Overdue only"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Return the leases that are overdue by the server's clock."""
        return queryset.narrowed(overdue=self.value() == "1")


class LeaseList(ChangeList):
    """The admin's list over rows that no database has."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Return the rows after each filter; there is nothing to search, order or look up."""
        self.filter_specs, self.has_filters, _rest, _duplicates, self.has_active_filters = self.get_filters(request)
        self.clear_all_filters_qs = self.get_query_string(remove=list(self.get_filters_params()))
        rows: Any = self.root_queryset
        for spec in self.filter_specs:
            rows = spec.queryset(request, rows)
        return rows

    def get_results(self, request: HttpRequest) -> None:
        """Read one page, and show what kept the server from answering."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        rows: Any = self.queryset
        for problem in dict.fromkeys(rows.problems):
            messages.error(request, problem)


@admin.register(Lease)
class LeaseAdmin(LeaseModelAdmin):
    """Where operators see what is being worked on."""

    list_display = (
        "job_id",
        "task",
        "queue",
        "lane",
        "holder",
        "time_left",
        "held_for",
        "attempts",
        "stalled",
        "fence",
    )
    list_filter = (QueueFilter, OverdueFilter)
    list_per_page = 50
    list_max_show_all = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    actions = None
    fieldsets = (
        (None, {"fields": (("job_id", "state"), ("task", "queue", "lane", "backend"))}),
        (_("Lease"), {"fields": (("holder", "time_left", "held_for", "fence"),)}),
        (_("How"), {"fields": (("attempts", "failures", "stalled", "deaths"), "arguments", "failure")}),
    )
    readonly_fields = ("state", "held_for", "time_left", "failures", "deaths", "arguments", "failure", *_FLOW)

    class Media:
        css = {"all": ("echomq_django/admin.css",)}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: workers take leases."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Lease | None = None) -> bool:
        """Return False: the page shows and changes nothing."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Lease | None = None) -> bool:
        """Return False: leases end by themselves."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Lease | None = None) -> Any:
        """Return the sections of the page; that of chains and groups only where the job is in one."""
        fields = [name for name in _FLOW if obj is not None and getattr(self, name)(obj)]
        return [*super().get_fieldsets(request, obj), *([(_("Chain and group"), {"fields": fields})] if fields else [])]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that reads from the server."""
        return LeaseList

    def get_queryset(self, request: HttpRequest) -> Any:
        """Return the rows of all queues; they do what the change list asks of a queryset."""
        return live.LeaseRows()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Lease | None:
        """Return the job as it stands now, or None if it is not live or the server does not answer."""
        try:
            return live.find(object_id)
        except EchoMQError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        text = _t("%(key)s is not live any more. Jobs that died are among the dead jobs.") % {"key": object_id}
        self.message_user(request, text, messages.WARNING)
        there = reverse("admin:echomq_django_lease_changelist", current_app=self.admin_site.name)
        return HttpResponseRedirect(there)

    @admin.display(description=_("held for"))
    def held_for(self, lease: Lease) -> str | None:
        """Return how long the holder has had the job."""
        return None if lease.held_ms is None else shown.duration(lease.held_ms)

    @admin.display(description=_("time left"))
    def time_left(self, lease: Lease) -> str | None:
        """Return how long the lease still lasts, or since when it should have ended."""
        if lease.left_ms is None:
            return None
        text = shown.duration(lease.left_ms)
        if lease.left_ms >= 0:
            return text
        return format_html('<span class="emq-overdue">{}</span>', _t("overdue %(span)s") % {"span": text})

    @admin.display(description=_("state"))
    def state(self, lease: Lease) -> str:
        """Return where the job is now."""
        return str(_STATES.get(lease.row.state, lease.row.state)) if lease.row else ""

    @admin.display(description=_("failures"))
    def failures(self, lease: Lease) -> int | None:
        """Return how often the job failed in this life."""
        return lease.row.failures if lease.row else None

    @admin.display(description=_("deaths"))
    def deaths(self, lease: Lease) -> int | None:
        """Return how often the job died before."""
        return lease.row.deaths if lease.row else None

    @admin.display(description=_("arguments"))
    def arguments(self, lease: Lease) -> str:
        """Return the arguments, escaped."""
        body = lease.row.body if lease.row else b""
        try:
            message = Message.unpack(body)
        except (ValueError, RecursionError):
            return shown.arguments(None, None, body, None)
        return shown.arguments(*display.arguments(message.payload, message.options), message.payload, message.options)

    @admin.display(description=_("group"))
    def group(self, lease: Lease) -> str | None:
        """Return the group that the job is in."""
        group = lease.row.extras.get("group") if lease.row else None
        return flow.of_group(lease.backend, lease.queue, group) if group else None

    @admin.display(description=_("waits for"))
    def waits_for(self, lease: Lease) -> str | None:
        """Return how far the group is that the job waits for."""
        after = lease.row.extras.get("after") if lease.row else None
        return flow.of_after(lease.backend, after) if after else None

    @admin.display(description=_("chain"))
    def chain(self, lease: Lease) -> str | None:
        """Return what follows the job."""
        try:
            chain = Message.unpack(lease.row.body).options.get("chain") if lease.row else None
        except (ValueError, RecursionError):
            return None
        return flow.of_chain(chain) if chain else None

    @admin.display(description=_("last failure"))
    def failure(self, lease: Lease) -> str | None:
        """Return how the latest attempt failed, escaped."""
        failed = lease.row.failure if lease.row else None
        if failed is None:
            return None
        return shown.block(
            "\n".join(filter(None, [f"{failed.reason}: {failed.error_class}", failed.message, failed.traceback]))
        )
