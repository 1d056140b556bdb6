"""What the processes of a worker say of a server that is gone: a line when they notice, and one when it is over."""

from tests.chaos.crew import Worker

GONE = ("the server is gone, trying again", "dead jobs and schedules wait, trying again")
BACK = ("the server is back", "dead jobs and schedules wait no more")


def told(worker: Worker) -> list[str]:
    """Return how the lines begin that a worker has logged beside those; a traceback is not allowed."""
    assert "Traceback" not in worker.log
    lines = (line for lines in worker.lines.values() for line in lines)
    return [line.partition(" ")[0] for line in lines if not line.startswith(GONE + BACK)]


def is_told_of(worker: Worker) -> bool:
    """Return whether no process of a worker waits for the server any more."""
    return not any(changes[-1:] == [True] for changes in _changes(worker).values())


def outages(worker: Worker) -> dict[int, int]:
    """Return of how many outages each process has told, all of which must be over; nothing else may be in the log."""
    assert told(worker) == ["worker", "connected"], worker.log
    for pid, changes in _changes(worker).items():
        assert changes == [True, False] * (len(changes) // 2), (
            f"{pid} tells a change twice or not at all:\n{worker.log}"
        )
    return {pid: len(changes) // 2 for pid, changes in _changes(worker).items()}


def _changes(worker: Worker) -> dict[int, list[bool]]:
    said = {pid: [one for one in lines if one.startswith(GONE + BACK)] for pid, lines in worker.lines.items()}
    return {pid: [one.startswith(GONE) for one in lines] for pid, lines in said.items()}
