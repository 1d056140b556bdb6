"""What just happened, in one sentence."""

from collections import Counter
from dataclasses import dataclass

from example_project.bot.board import Board, Job, Place
from example_project.bot.models import Command, Crash, Kind

CALM, ALARM, GOOD = "calm", "alarm", "good"


@dataclass(frozen=True)
class Story:
    """A sentence, and the instant that it counts down to, if any: `text` + the seconds until then + `rest`."""

    tone: str
    text: str
    countdown_to: Job | None = None
    rest: str = ""
    links_to_dead: bool = False


def tell(board: Board) -> Story:
    """Return the story of the latest crash or of the latest command that went wrong, whichever is younger."""
    crash = board.crash
    lost = [job for job in board.jobs if crash and job.command.job_id in crash.held]
    wrong = next((job for job in board.jobs if job.starts and _goes_wrong(job.command)), None)
    if crash and lost and not (wrong and wrong.starts[-1].started_at > crash.happened_at):
        return _of_crash(crash, lost)
    return _of_failure(wrong) if wrong else _of_peace(board)


def _goes_wrong(command: Command) -> bool:
    return command.kind in {Kind.STUMBLE, Kind.POISON}


def _of_crash(crash: Crash, lost: list[Job]) -> Story:
    who = f"{'Worker' if crash.whole_worker else 'Process'} {crash.pid}"
    head = f"{who} was killed while it held {_jobs(len(lost))}"
    orphans = [job for job in lost if job.is_orphan and job.place == Place.IN_HAND]
    if orphans:
        return _of_orphans(head, orphans, crash)
    if all(job.place == Place.DONE for job in lost):
        return Story(GOOD, f"{head}. {_ending(lost)}")
    return Story(ALARM, f"{head}. Nothing is lost: {_whereabouts(lost)}.")


def _of_orphans(head: str, orphans: list[Job], crash: Crash) -> Story:
    last = max(orphans, key=lambda job: job.seconds_left)
    if not crash.whole_worker:
        return Story(ALARM, f"{head}. Its worker has seen that and hands on what it held.")
    if not last.seconds_left:
        return Story(ALARM, f"{head}. The lease has ended, and the next beat of a worker takes the job back.")
    whose = "its" if len(orphans) == 1 else "the last"
    return Story(ALARM, f"{head}; {whose} lease ends in ", last, ", then another process takes over.")


def _ending(lost: list[Job]) -> str:
    if len(lost) > 1:
        return "All of them came back, and each has one reply."
    starts = len(lost[0].starts)
    return f"The job came back: started {'twice' if starts == 2 else f'{starts} times'}, one reply."


def _whereabouts(lost: list[Job]) -> str:
    if len(lost) == 1 and lost[0].pid:
        return f"process {lost[0].pid} has started the job again"
    words = {Place.WAITING: "waiting again", Place.IN_HAND: "in hand again", Place.LATER: "to be retried"}
    counts = Counter(words.get(job.place, job.place.label.lower()) for job in lost)
    return ", ".join(f"{_jobs(count)} {words}" for words, count in counts.items())


def _of_failure(job: Job) -> Story:
    count, kind = len(job.starts), job.command.get_kind_display()
    did = "killed its process" if job.command.kind == Kind.POISON else "failed"
    did = f"{kind} has {did} {_times(count)}"
    if job.place == Place.DEAD:
        return Story(ALARM, f"{did} and is dead. An operator finds it among the", links_to_dead=True)
    if job.place == Place.DONE:
        return Story(GOOD, f"{kind} went well at start {count}, after an operator had requeued it.")
    if job.place == Place.LATER and job.seconds_left:
        return Story(ALARM, f"{did} and is tried again in ", job, ".")
    return Story(
        ALARM, f"{kind} is running: start {count}." if job.is_running else f"{did} and waits to be tried again."
    )


def _of_peace(board: Board) -> Story:
    digging = next((job for job in board.in_hand if job.command.kind == Kind.DIG and job.is_running), None)
    if digging:
        return Story(CALM, f"Process {digging.pid} is digging. Kill it, and watch its job come back.")
    waiting = sum(job.place == Place.WAITING for job in board.jobs)
    busy = f"{_jobs(len(board.in_hand))} in hand, {waiting} waiting." if board.in_hand or waiting else "All is quiet."
    return Story(CALM, f"{busy} Let the bot dig, and kill the worker while it digs.")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
