"""How an operator's act on dead jobs is asked for, done, written down and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from echomq_django.admin import shown
from echomq_django.admin.acts import REQUEUE, Act
from echomq_django.floor import database, outbox
from echomq_django.models import DeadJob

LIMIT = 10_000
_SAMPLE = 10
_LOGGED_IDS = 100


def ask_and_perform(
    model_admin: admin.ModelAdmin[DeadJob], request: HttpRequest, act: Act, queryset: QuerySet[DeadJob]
) -> HttpResponse | None:
    """Ask first; once confirmed, act on what is selected, at most on the newest ten thousand."""
    pks = _selected(request, queryset)
    if "post" not in request.POST:
        return confirm(model_admin, request, act, pks)
    perform(model_admin, request, act, pks)
    return None


def confirm(model_admin: admin.ModelAdmin[DeadJob], request: HttpRequest, act: Act, pks: Sequence[int]) -> HttpResponse:
    """Return the page that asks whether to do it; it comes back as the same request with `post` set."""
    rows = database.rows(DeadJob).filter(pk__in=pks[:_SAMPLE]).only("job_id", "task", "reason").order_by("-died_at")
    from_list = "action" in request.POST
    context = {
        **model_admin.admin_site.each_context(request),
        "title": act.title,
        "opts": model_admin.opts,
        "media": model_admin.media,
        "act": act,
        "question": act.question % {"count": len(pks)},
        "rows": rows,
        "more": max(0, len(pks) - _SAMPLE),
        "hidden": _hidden(request, act, pks) if from_list else [],
        "back": reverse("admin:echomq_django_deadjob_changelist", current_app=model_admin.admin_site.name),
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/echomq_django/deadjob/confirm.html", context)


def perform(model_admin: admin.ModelAdmin[DeadJob], request: HttpRequest, act: Act, pks: Sequence[int]) -> None:
    """Do it, write it into the admin's log, and tell the operator what happened and what did not."""
    with transaction.atomic(using=database.alias()):
        changed = act.perform(pks, request.user.get_username(), request.POST.get("why", ""))
        if changed:
            _log(model_admin, request, act, pks, changed)
    if changed:
        model_admin.message_user(request, act.done % {"count": changed}, messages.SUCCESS)
    if changed < len(pks):
        model_admin.message_user(request, _left_alone(pks, len(pks) - changed), messages.WARNING)
    if act is REQUEUE and (waiting := outbox.waiting_revivals()):
        model_admin.message_user(request, _waiting(waiting), messages.WARNING)


def told(row: DeadJob) -> str:
    """Return what has become of a death, by whom and when."""
    if row.state == DeadJob.State.REQUEUED:
        return _("requeued by %(who)s at %(when)s") % {"who": row.requeued_by, "when": shown.moment(row.requeued_at)}
    if row.state == DeadJob.State.DISCARDED:
        facts = {"who": row.discarded_by, "when": shown.moment(row.discarded_at)}
        why = f": {row.discard_reason}" if row.discard_reason else ""
        return _("discarded by %(who)s at %(when)s") % facts + why
    return str(row.get_state_display())


def _selected(request: HttpRequest, queryset: QuerySet[DeadJob]) -> list[int]:
    """Return what the operator means. A row that left the filter meanwhile is still meant, and gets an answer."""
    if request.POST.get("select_across") == "1":
        return list(queryset.values_list("pk", flat=True)[:LIMIT])
    return [int(pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME) if pk.isdecimal()]


def _hidden(request: HttpRequest, act: Act, pks: Sequence[int]) -> list[tuple[str, Any]]:
    across = request.POST.get("select_across") == "1"
    named: list[tuple[str, Any]] = [("action", act.name), ("select_across", int(across))]
    return named + [(ACTION_CHECKBOX_NAME, pk) for pk in (pks[:1] if across else pks)]


def _log(
    model_admin: admin.ModelAdmin[DeadJob], request: HttpRequest, act: Act, pks: Sequence[int], changed: int
) -> None:
    rows = database.rows(DeadJob).filter(pk__in=pks).defer("payload", "traceback")
    message = act.done % {"count": changed}
    if why := request.POST.get("why"):
        message = f"{message} {why}"
    if len(pks) == 1:
        model_admin.log_change(request, rows.get(), message)
        return
    ids = ", ".join(rows.values_list("job_id", flat=True)[:_LOGGED_IDS]) if len(pks) <= _LOGGED_IDS else ""
    LogEntry.objects.create(
        user_id=str(request.user.pk),
        content_type_id=ContentType.objects.get_for_model(DeadJob).pk,
        object_repr=ngettext("%(count)d dead job", "%(count)d dead jobs", changed) % {"count": changed},
        action_flag=CHANGE,
        change_message=" ".join(filter(None, [message, request.GET.urlencode(), ids])),
    )


def _left_alone(pks: Sequence[int], count: int) -> str:
    row = database.rows(DeadJob).filter(pk__in=pks).first() if len(pks) == 1 else None
    if row is None:
        return ngettext(
            "%(count)d dead job was left alone: it had been requeued or discarded before, or can't be read.",
            "%(count)d dead jobs were left alone: they had been requeued or discarded before, or can't be read.",
            count,
        ) % {"count": count}
    if row.state == DeadJob.State.DEAD:
        return _("%(job)s can't be requeued: only the bytes of its row are left.") % {"job": row.job_id}
    return _("%(job)s was already %(told)s.") % {"job": row.job_id, "told": told(row)}


def _waiting(count: int) -> str:
    return ngettext(
        "The server does not take jobs at the moment. %(count)d requeued job waits in the outbox for it.",
        "The server does not take jobs at the moment. %(count)d requeued jobs wait in the outbox for it.",
        count,
    ) % {"count": count}
