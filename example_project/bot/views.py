"""One page: what the bot was asked, where its jobs are, and buttons that break things and try things out."""

from dataclasses import asdict
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from echomq_django import enqueue_many
from echomq_django.connection import get_bus
from echomq_django.exceptions import BusError
from example_project.bot import crash, race, sweeps, tasks
from example_project.bot.board import Board, Job, read_board
from example_project.bot.forms import AskForm, KillForm
from example_project.bot.machine import node_of, read_machine
from example_project.bot.models import Command, Kind, Sweep
from example_project.bot.story import ALARM, Story, tell

TASKS = {Kind.ECHO: tasks.answer, Kind.DIG: tasks.dig, Kind.STUMBLE: tasks.stumble, Kind.POISON: tasks.poison}
_LIVE_PARTS = ("story", "kill", "machine", "board", "sweeps", "race", "commands")


@require_safe
@never_cache
def page(request: HttpRequest) -> HttpResponse:
    """Show the page, complete without JavaScript."""
    return render(request, "bot/page.html", _context())


@require_safe
@never_cache
def state(request: HttpRequest) -> HttpResponse:
    """Return the live parts of the page, rendered by its own templates, and the plain facts for programs."""
    context = _context()
    board: Board | None = context["board"]
    return JsonResponse(
        {
            "now": board.now if board else 0,
            "parts": {name: render_to_string(f"bot/{name}.html", context) for name in _LIVE_PARTS},
            "jobs": [_facts(job) for job in board.jobs] if board else [],
            "sweep": model_to_dict(context["sweep"]) if context.get("sweep") else None,
            "race": [asdict(result) for result in context.get("race", [])],
        }
    )


@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Enqueue what was asked. The jobs are pushed after the commit, so no worker is faster than our own rows."""
    form = AskForm(request.POST)
    if not form.is_valid():
        return HttpResponseBadRequest("The bot can't be asked that.")
    kind, text, times = form.cleaned_data["kind"], form.cleaned_data["text"], form.cleaned_data["times"]
    asked_by = request.user.get_username() or "visitor"
    with transaction.atomic():
        ids = enqueue_many(TASKS[kind], [((text,), {})] * times)
        Command.objects.bulk_create(Command(job_id=id, kind=kind, text=text, asked_by=asked_by) for id in ids)
    return redirect("bot:page")


@require_POST
def kill(request: HttpRequest) -> HttpResponse:
    """Kill a process that runs a job, or its whole worker: the demo's own, and only in the demo."""
    form = KillForm(request.POST)
    if not settings.DEMO_DIRECTORY:
        raise Http404("Only a demo kills its workers.")
    if not form.is_valid():
        return HttpResponseBadRequest("Only a process or a worker can be killed.")
    if not crash.kill(read_board().in_hand, whole_worker=form.cleaned_data["what"] == "worker"):
        messages.warning(request, "Nothing was killed: no process runs a job at the moment. Let the bot dig first.")
    return redirect("bot:page")


@require_POST
def sweep(request: HttpRequest) -> HttpResponse:
    """Let many sweepers take expired leases back at once, and keep what came of it. Takes about two seconds."""
    script, loop = sweeps.compare(get_bus())
    run = {"leases": sweeps.LEASES, "sweepers": sweeps.SWEEPERS}
    Sweep.objects.create(script=asdict(script), loop=asdict(loop), **run)
    return redirect(f"{reverse('bot:page')}#sweeps")


@require_POST
def start_race(request: HttpRequest) -> HttpResponse:
    """Start a race of the lanes, unless the last one is still on."""
    if all(result.is_over for result in race.read_race()):
        race.start()
    else:
        messages.warning(request, "The race is still on.")
    return redirect(f"{reverse('bot:page')}#race")


def _context() -> dict[str, Any]:
    try:
        board = read_board()
    except BusError as error:
        return {"board": None, "story": Story(ALARM, f"The queue can't be read. {error}"), "is_demo": False}
    return {
        "board": board,
        "machine": read_machine(board),
        "story": tell(board),
        "sweep": Sweep.objects.order_by("id").last(),
        "race": race.read_race(),
        "is_demo": settings.DEMO_DIRECTORY is not None,
    }


def _facts(job: Job) -> dict[str, Any]:
    command = job.command
    return {
        "id": command.job_id,
        "kind": command.kind,
        "place": job.place,
        "running": job.is_running,
        "node": node_of(job),
        "attempts": job.attempts,
        "failures": job.record.failures if job.record else 0,
        "starts": len(job.starts),
        "reply": job.reply.text if job.reply else None,
    }
