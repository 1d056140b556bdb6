"""Dead jobs: a list that stays fast at a million rows, a page for each death, and the way back to work."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from echomq_django.admin import acting, filters, flow, shown
from echomq_django.admin.acts import DISCARD, REQUEUE, Act
from echomq_django.models import DeadJob

if TYPE_CHECKING:
    DeadJobModelAdmin = admin.ModelAdmin[DeadJob]
    DeadJobPaginator = Paginator[DeadJob]
else:
    DeadJobModelAdmin, DeadJobPaginator = admin.ModelAdmin, Paginator

_MESSAGE = 120
_OTHER_DEATHS = 20
_BIG_FIELDS = ("payload", "headers", "options", "args", "kwargs", "error_message", "traceback", "discard_reason")


class CappedPaginator(DeadJobPaginator):
    """Counts and pages no further than the newest ten thousand: neither costs more when there are a million."""

    @cached_property
    def count(self) -> int:
        """Return how many rows can be paged through."""
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[: acting.LIMIT].count())


class DeadJobList(ChangeList):
    """The rows of a page without what can be large."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[DeadJob]:
        """Return the rows that match, with the beginning of the message instead of the whole."""
        rows: QuerySet[DeadJob] = super().get_queryset(request, exclude_parameters)
        return rows.defer(*_BIG_FIELDS).annotate(message_start=Left("error_message", _MESSAGE + 1))

    def get_results(self, request: HttpRequest) -> None:
        """Read one page and say so if there is more than can be paged through."""
        super().get_results(request)
        if self.result_count == acting.LIMIT and request.method == "GET":
            text = _("These are the newest %(count)d that match. Narrow the filters or search an id to reach others.")
            messages.info(request, text % {"count": acting.LIMIT})


@admin.register(DeadJob)
class DeadJobAdmin(DeadJobModelAdmin):
    """Where operators see what died, and why, and send it back to work."""

    list_display = (
        "died",
        "task",
        "state",
        "queue",
        "lane",
        "reason",
        "error_class",
        "attempts",
        "failures",
        "stalled",
        "message",
    )
    list_display_links = ("died", "task")
    list_filter = (
        "state",
        filters.ReasonFilter,
        filters.QueueFilter,
        filters.TaskFilter,
        filters.ErrorClassFilter,
        filters.DiedSinceFilter,
    )
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator
    ordering = ("-died_at",)
    sortable_by = ("died",)
    search_fields = ("job_id__exact",)
    search_help_text = _("The whole id of a job")
    actions = ("requeue", "discard")
    fieldsets = (
        (None, {"fields": (("job_id", "state_told"), ("task", "queue", "lane", "backend"), ("died", "enqueued"))}),
        (_("Why"), {"fields": (("reason", "error_class", "same_error"), "error_message")}),
        (_("How"), {"fields": (("attempts", "failures", "stalled", "death_no"), "arguments")}),
        (_("Traceback"), {"fields": ("trace",), "classes": ("collapse",)}),
        (
            _("Details"),
            {
                "fields": (("death_key", "priority", "max_stalled", "lease_ms", "isolate"), "headers", "job_options"),
                "classes": ("collapse",),
            },
        ),
    )
    readonly_fields = (
        *("state_told", "died", "enqueued", "same_error", "arguments", "trace", "job_options"),
        *("in_group", "chain"),
    )

    class Media:
        css = {"all": ("echomq_django/admin.css",)}

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: only the mirror adds rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: DeadJob | None = None) -> bool:
        """Return False: what happened is not edited."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: DeadJob | None = None) -> bool:
        """Return False: the only way out of sight is to discard, which leaves a trace."""
        return False

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may send jobs back to work."""
        return request.user.has_perm(REQUEUE.permission)

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may set jobs aside."""
        return request.user.has_perm(DISCARD.permission)

    def get_fieldsets(self, request: HttpRequest, obj: DeadJob | None = None) -> Any:
        """Return the sections of the page; that of chains and groups only where the job is in one."""
        fields = [name for name in ("in_group", "chain") if obj is not None and getattr(self, name)(obj)]
        return [*super().get_fieldsets(request, obj), *([(_("Chain and group"), {"fields": fields})] if fields else [])]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that leaves large columns out."""
        return DeadJobList

    def get_urls(self) -> list[URLPattern]:
        """Return the pages of the model and one address for each act."""
        acts = [
            path(
                f"<path:object_id>/{act.name}/",
                self.admin_site.admin_view(partial(self.act_view, act=act)),
                name=f"echomq_django_deadjob_{act.name}",
            )
            for act in (REQUEUE, DISCARD)
        ]
        return [*acts, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Show the list or act; an act that the user may not do is refused, not just left out of the menu."""
        for act in (REQUEUE, DISCARD):
            if act.name in request.POST.getlist("action") and not request.user.has_perm(act.permission):
                raise PermissionDenied
        return super().changelist_view(request, extra_context)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: DeadJob | None = None,
    ) -> HttpResponse:
        """Add the acts that are possible now, and the other deaths of the job."""
        if obj is not None:
            others = DeadJob.objects.using(obj._state.db).filter(job_id=obj.job_id).exclude(pk=obj.pk)
            rows = others.defer(*_BIG_FIELDS).order_by("-died_at")[: _OTHER_DEATHS + 1]
            context.update(acts=list(self._possible(request, obj)), other_deaths=rows, shown_deaths=_OTHER_DEATHS)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def act_view(self, request: HttpRequest, object_id: str, act: Act) -> HttpResponse:
        """Do one thing to one dead job and go back to its page."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not request.user.has_perm(act.permission):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        if act.asks_why and "post" not in request.POST:
            return acting.confirm(self, request, act, [row.pk])
        acting.perform(self, request, act, [row.pk])
        return HttpResponseRedirect(
            reverse("admin:echomq_django_deadjob_change", args=[object_id], current_app=self.admin_site.name)
        )

    @admin.action(permissions=["requeue"], description=_("Requeue selected dead jobs"))
    def requeue(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse | None:
        """Ask, then send the selected jobs back to work."""
        return acting.ask_and_perform(self, request, REQUEUE, queryset)

    @admin.action(permissions=["discard"], description=_("Discard selected dead jobs"))
    def discard(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> HttpResponse | None:
        """Ask, then set the selected jobs aside."""
        return acting.ask_and_perform(self, request, DISCARD, queryset)

    @admin.display(description=_("died"), ordering="died_at")
    def died(self, row: DeadJob) -> str:
        """Return when the job died, by the server's clock."""
        return shown.instant(row.died_at)

    @admin.display(description=_("enqueued"))
    def enqueued(self, row: DeadJob) -> str:
        """Return when the job was enqueued, by the server's clock."""
        return shown.instant(row.enqueued_at)

    @admin.display(description=_("message"))
    def message(self, row: DeadJob) -> str:
        """Return the beginning of the error message."""
        text: str = row.message_start  # type: ignore[attr-defined]
        return text if len(text) <= _MESSAGE else text[:_MESSAGE] + "…"

    @admin.display(description=_("state"))
    def state_told(self, row: DeadJob) -> str:
        """Return what has become of the death, by whom and when."""
        return acting.told(row)

    @admin.display(description=_("fingerprint"))
    def same_error(self, row: DeadJob) -> str:
        """Return the fingerprint as a link to all deaths of the same error."""
        there = reverse("admin:echomq_django_deadjob_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?fingerprint={}">{}</a>', there, row.fingerprint, row.fingerprint)

    @admin.display(description=_("arguments"))
    def arguments(self, row: DeadJob) -> str:
        """Return the arguments, escaped."""
        return shown.arguments(row.args, row.kwargs, bytes(row.payload), row.options)

    @admin.display(description=_("options"))
    def job_options(self, row: DeadJob) -> str:
        """Return what travels with the job, escaped."""
        return shown.options(row.options)

    @admin.display(description=_("traceback"))
    def trace(self, row: DeadJob) -> str:
        """Return the traceback, escaped."""
        return shown.block(row.traceback)

    @admin.display(description=_("group"))
    def in_group(self, row: DeadJob) -> str | None:
        """Return the group that the job is in."""
        return flow.of_group(row.backend, row.queue, row.group) if row.group else None

    @admin.display(description=_("chain"))
    def chain(self, row: DeadJob) -> str | None:
        """Return what follows the job."""
        chain = (row.options or {}).get("chain")
        return flow.of_chain(chain) if chain else None

    def _possible(self, request: HttpRequest, row: DeadJob) -> Sequence[Act]:
        if row.state != DeadJob.State.DEAD:
            return []
        acts = [REQUEUE, DISCARD] if row.is_readable else [DISCARD]
        return [act for act in acts if request.user.has_perm(act.permission)]
