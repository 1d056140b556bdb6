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
        "Requeue %(count)d dead job? It goes behind the jobs that wait in its queue, with all attempts anew.",
        "Requeue %(count)d dead jobs? They go behind the jobs that wait in their queues, with all attempts anew.",
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
        "Discard %(count)d dead job? It stays in the list and can't be requeued any more.",
        "Discard %(count)d dead jobs? They stay in the list and can't be requeued any more.",
        "count",
    ),
    done=ngettext_lazy("%(count)d dead job was discarded.", "%(count)d dead jobs were discarded.", "count"),
    asks_why=True,
    perform=dead_letters.discard,
)
