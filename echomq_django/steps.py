"""One call of a task as data, so that it can wait inside another job for its turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from echomq_django.bus.jobs import NewJob
from echomq_django.conf import load
from echomq_django.exceptions import InvalidArguments, InvalidOption
from echomq_django.middleware import headers_of
from echomq_django.payload import encode
from echomq_django.plan import Plan, make_plan
from echomq_django.tasks import UNSET, Task, redacted, resolve

_PLACES = ("queue_name", "priority")


@dataclass(frozen=True, slots=True)
class Step:
    """A call of `task` that has not happened yet."""

    task: Task[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @classmethod
    def from_data(cls, data: Mapping[str, Any], alias: str) -> "Step":
        """Return the call that `to_data()` wrote down, for the backend `alias`; raises what `resolve()` raises."""
        task = resolve(data["task"])
        places = {name: data[name] for name in _PLACES if name in data}
        task = replace(task, options=task.options.merged(data.get("options", {})), backend=alias, **places)
        return cls(task, data.get("args", []), data.get("kwargs", {}))

    def to_data(self) -> dict[str, Any]:
        """Return the call as JSON can hold it; raises `InvalidOption` or `InvalidArguments` for what can't wait."""
        encode(self.args, self.kwargs)
        path, original = self.task.module_path, resolve(self.task.module_path)
        if self.task.run_after is not None:
            raise InvalidOption(f"{path}: a call that waits for its turn can't have run_after")
        places = {name: getattr(self.task, name) for name in _PLACES if self._differs(self.task, original, name)}
        options = {name: getattr(self.task.options, name) for name in self._changed_options(original)}
        if any(map(callable, options.values())):
            raise InvalidOption(f"{path}: only data can travel with a call, give code to @task instead")
        return {"task": path, "args": list(self.args), "kwargs": dict(self.kwargs), "options": options, **places}

    def to_link(self) -> dict[str, Any]:
        """Return the call as a link of a chain; raises for what can't follow another job, too."""
        data, path = self.to_data(), self.task.module_path
        if self.task.options.unique is not UNSET:
            raise InvalidOption(f"{path}: a step that follows another can't be unique, its chain would end there")
        if hidden := [place for place in map(_behind_value, redacted(self.task)) if place != -1]:
            data["redact"] = hidden
        if "\\u0000" in json.dumps([data["args"], data["kwargs"]]):
            # It waits among the options of another job, and the database can't keep a NUL there.
            raise InvalidArguments(f"{path}: the arguments of a step that follows another can't hold a NUL")
        return data

    def _changed_options(self, original: Task[..., Any]) -> list[str]:
        names = [entry.name for entry in fields(self.task.options)]
        return [name for name in names if self._differs(self.task.options, original.options, name)]

    @staticmethod
    def _differs(one: object, other: object, name: str) -> bool:
        return bool(getattr(one, name) != getattr(other, name))


def _behind_value(place: int | str) -> int | str:
    """Return where an argument stands in a step, whose first one is the value of the step before it."""
    return place - 1 if isinstance(place, int) else place


def next_job(
    chain: Sequence[Mapping[str, Any]], value: Any, alias: str, headers: Mapping[str, str]
) -> tuple[Task[..., Any], Plan, NewJob]:
    """Return the first step of `chain` as a job, its task and plan; `value` is its first argument, the rest follows it.

    It takes over the `headers` of the job before it, and middleware may change them.
    """
    step, rest = Step.from_data(chain[0], alias), chain[1:]
    args, kwargs = [value, *step.args], step.kwargs
    # A task may have become unique since: the chain would end in the job that it is merged into.
    plan = replace(make_plan(step.task, load(alias)), unique=UNSET)
    headers = headers_of(alias, step.task, args, kwargs, headers)
    return step.task, plan, plan.job(args, kwargs, encode(args, kwargs), headers=headers, chain=rest)
