"""What the processes of a worker say of a server that is gone: a line when they notice, and one when it is over."""

from tests.chaos.crew import Worker

GONE = ("the server is gone, trying again", "dead jobs and schedules wait, trying again")
BACK = ("the server is back", "dead jobs and schedules wait no more")


def is_told_of(worker: Worker) -> bool:
    """Return whether no process of a worker waits for the server any more."""
    return not any(lines[-1:] == [True] for lines in _changes(worker).values())


def outages(worker: Worker) -> dict[int, int]:
    """Return of how many outages each process has told, all of which must be over; other lines are not allowed."""
    changes = _changes(worker)
    for pid, told in changes.items():
        assert told == [True, False] * (len(told) // 2), f"{pid} tells a change twice or not at all:\n{worker.log}"
    first, *rest = [line for lines in worker.lines.values() for line in lines if not line.startswith(GONE + BACK)]
    assert first.startswith("worker "), worker.log
    assert [line.partition(" ")[0] for line in rest] == ["connected"], worker.log
    assert "Traceback" not in worker.log
    return {pid: len(told) // 2 for pid, told in changes.items()}


def _changes(worker: Worker) -> dict[int, list[bool]]:
    return {
        pid: [line.startswith(GONE) for line in lines if line.startswith(GONE + BACK)]
        for pid, lines in worker.lines.items()
    }
