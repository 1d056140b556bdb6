"""One page: what the bot was asked, where its jobs are, and buttons that break things."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from echomq_django import enqueue_many
from echomq_django.exceptions import BusError
from example_project.bot import crash, tasks
from example_project.bot.board import Board, Job, read_board
from example_project.bot.forms import AskForm, KillForm
from example_project.bot.models import Command, Kind
from example_project.bot.story import ALARM, Story, tell

TASKS = {Kind.ECHO: tasks.answer, Kind.DIG: tasks.dig, Kind.STUMBLE: tasks.stumble, Kind.POISON: tasks.poison}
_LIVE_PARTS = ("story", "kill", "board", "commands")


@require_GET
@never_cache
def page(request: HttpRequest) -> HttpResponse:
    """Show the page, complete without JavaScript."""
    return render(request, "bot/page.html", _context())


@require_GET
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


def _context() -> dict[str, Any]:
    try:
        board = read_board()
    except BusError as error:
        return {"board": None, "story": Story(ALARM, f"The queue can't be read. {error}"), "is_demo": False}
    return {"board": board, "story": tell(board), "is_demo": settings.DEMO_DIRECTORY is not None}


def _facts(job: Job) -> dict[str, Any]:
    command = job.command
    return {
        "id": command.job_id,
        "kind": command.kind,
        "place": job.place,
        "running": job.is_running,
        "starts": len(job.starts),
        "reply": job.reply.text if job.reply else None,
    }
