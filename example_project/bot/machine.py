"""The states in which the board's jobs are, for the diagram that joins them by their moves."""

from dataclasses import dataclass

from django.db.models import TextChoices

from echomq_django.bus.row import Row, State
from example_project.bot.board import Board, Job, Place

RINGS = 3


class Node(TextChoices):
    """A state of a job in the diagram; the label says what the job does there."""

    SCHEDULED = "scheduled", "waits for its time: a delay, or a break before the next try"
    PENDING = "pending", "waits for a worker"
    ACTIVE = "active", "is in the hands of a worker, for as long as that one renews its lease"
    SUSPECT = "suspect", "ran beside others when their process died, and is run alone to find out which one did it"
    DEAD = "dead", "is given up, and kept for an operator to requeue or discard"
    DONE = "done", "has ended well"


_NODES = {
    State.SCHEDULED: Node.SCHEDULED,
    State.PENDING: Node.PENDING,
    State.ACTIVE: Node.ACTIVE,
    State.SUSPECT: Node.SUSPECT,
    State.DEAD: Node.DEAD,
}


@dataclass(frozen=True)
class Machine:
    """How many of the board's jobs are in which state, and the jobs in hand whose leases have room in the diagram."""

    counts: dict[str, int]
    held: list[Job]

    @property
    def nodes(self) -> list[tuple[Node, int]]:
        """The states with their counts."""
        return [(node, self.counts[node.value]) for node in Node]

    @property
    def rings(self) -> list[Job]:
        """The jobs in hand that are shown."""
        return self.held[:RINGS]

    @property
    def hidden(self) -> int:
        """How many jobs in hand are not shown."""
        return len(self.held) - len(self.rings)


def node_of(job: Job) -> Node:
    """Return the state of a job."""
    if isinstance(job.row, Row):
        return _NODES[job.row.state]
    return {Place.DEAD: Node.DEAD, Place.DONE: Node.DONE}.get(job.place, Node.PENDING)


def read_machine(board: Board) -> Machine:
    """Count the jobs of `board`; nothing more is read."""
    nodes = [node_of(job) for job in board.jobs]
    return Machine(
        {node.value: nodes.count(node) for node in Node}, sorted(board.in_hand, key=lambda job: not job.is_running)
    )
