"""What an operator can do to dead jobs, in words and in deed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from echomq_django.floor import dead_letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing to do to dead jobs. `perform` takes primary keys, who, and why, and returns how many changed."""

    name: str
    title: Any
    button: Any
    question: Any
    done: Any
    asks_why: bool
    perform: Callable[[Sequence[int], str, str], int]

    @property
    def permission(self) -> str:
        """The permission that it takes."""
        return f"echomq_django.{self.name}_deadjob"


REQUEUE = Act(
    name="requeue",
    title=_("Requeue dead jobs"),
    button=_("Requeue"),
    question=ngettext_lazy(
        "%(count)d dead job goes back to its queue, behind the jobs that wait there, with all its attempts anew.",
        "%(count)d dead jobs go back to their queues, behind the jobs that wait there, with all their attempts anew.",
        "count",
    ),
    done=ngettext_lazy("%(count)d dead job was requeued.", "%(count)d dead jobs were requeued.", "count"),
    asks_why=False,
    perform=lambda dead, by, why: dead_letters.requeue(dead, by),
)

DISCARD = Act(
    name="discard",
    title=_("Discard dead jobs"),
    button=_("Discard"),
    question=ngettext_lazy(
        "%(count)d dead job is set aside: it stays in this list and can't be requeued any more.",
        "%(count)d dead jobs are set aside: they stay in this list and can't be requeued any more.",
        "count",
    ),
    done=ngettext_lazy("%(count)d dead job was discarded.", "%(count)d dead jobs were discarded.", "count"),
    asks_why=True,
    perform=dead_letters.discard,
)
