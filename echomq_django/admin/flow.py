"""What a job belongs to and what follows it, for its page: its group, the group that it waits for, its chain."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from echomq_django.admin import live
from echomq_django.bus import groups
from echomq_django.bus.jobs import After, GroupOf
from echomq_django.connection import get_bus
from echomq_django.exceptions import EchoMQError

_STEPS_SHOWN = 20


def of_group(alias: str, queue: str, group: GroupOf) -> SafeString:
    """Return the size of the group that a job of `queue` is in, and a link to the job that waits for all of it."""
    size = _("One of the %(size)d jobs of group %(id)s.") % group
    if "after" not in group:
        return format_html("{}", size)
    then = format_html('<a href="{}">{}</a>', page_of(alias, group.get("queue", queue), group["after"]), group["after"])
    return format_html("{} {} {}", size, _("When all are over:"), then)


def of_after(alias: str, after: After) -> SafeString:
    """Return how far the group is that a job waits for."""
    over = _members_over(alias, after["group"])
    if over is None:
        return format_html("{}", _("Waits for a group of %(size)d jobs.") % {"size": after["size"]})
    words = _("Waits for a group: %(over)d of %(size)d jobs are over.") % {"over": over, "size": after["size"]}
    return format_html("{}", words)


def of_chain(chain: Sequence[Mapping[str, Any]]) -> SafeString:
    """Return the tasks that follow one another after a job."""
    tasks = [(step["task"],) for step in chain[:_STEPS_SHOWN]]
    if len(chain) > _STEPS_SHOWN:
        tasks.append((_("and %(count)d more") % {"count": len(chain) - _STEPS_SHOWN},))
    return format_html("{} {}", _("When it has ended well:"), format_html_join(" → ", "{}", tasks))


def page_of(alias: str, queue: str, job_id: str) -> str:
    """Return the address of the page of a live job."""
    return reverse("admin:echomq_django_lease_change", args=[live.key_of(alias, queue, job_id)])


def _members_over(alias: str, group: str) -> int | None:
    """Return how many members are over; None if no queue of the settings is that of the group, or none answers."""
    queue = get_bus(alias).queue_of(group)
    try:
        return groups.over(queue, group) if queue else None
    except EchoMQError:
        return None
