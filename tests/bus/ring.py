"""The lanes of a queue in plain Python: whose turn it is, and what holds a lane back. It has no clock."""

import math
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

RATE = -1  # until when a lane is held that waits for its rate: the server knows


@dataclass
class Limits:
    """What holds for a lane, or for the queue; `tokens` are what is left of a rate, None without one."""

    concurrency: float = math.inf
    rate: int | None = None
    weight: int = 1
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Start with a full bucket."""
        self.tokens = self.rate

    @property
    def left(self) -> float:
        """How many jobs the rate lets start now."""
        return math.inf if self.tokens is None else self.tokens

    def take(self) -> None:
        """Let one job start."""
        if self.tokens is not None:
            self.tokens -= 1


@dataclass
class Ring:
    """Lanes with work: `turns` in their order, each with what is used of its turn, and `held` ones until when.

    The limits below None are those of the queue.
    """

    turns: dict[str, Fraction] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    limits: dict[str | None, Limits] = field(default_factory=lambda: defaultdict(Limits))
    running: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def queue_room(self, active: int) -> float:
        """How many jobs the queue may start now."""
        return max(0, min(self.limits[None].concurrency - active, self.limits[None].left))

    def serve(self, number: float, pending: Callable[[str], list[str]]) -> list[str]:
        """Take at most `number` jobs, turn by turn: a turn is worth as many as the lane weighs."""
        taken: list[str] = []
        moved: set[str] = set()
        front, alone = list(self.turns)[: int(number)], len(self.turns) == 1
        closed = {lane: until for lane in front if (until := self.closed(lane)) is not None}
        served, visits = {lane: self.used(lane) for lane in front}, deque(front)
        waiting = {lane: deque(pending(lane)) for lane in front}
        room = {lane: self.room(lane) for lane in front}
        while visits and len(taken) < number:
            lane = visits.popleft()
            while waiting[lane] and room[lane] > 0 and len(taken) < number:
                taken.append(waiting[lane].popleft())
                room[lane] -= 1
                served[lane] += 1
                moved.add(lane)
                if not alone and served[lane] == self.limits[lane].weight:
                    served[lane] = 0
                    del self.turns[lane]
                    self.turns[lane] = Fraction()
                    visits.append(lane)
                    break
        if not alone:
            self.turns |= {lane: Fraction(served[lane], self.limits[lane].weight) for lane in moved}
        for lane, until in closed.items():
            self.hold(lane, until)
        for lane in front:
            self.settle(lane, bool(waiting[lane]))
        return taken

    def used(self, lane: str) -> int:
        """How many jobs of its turn a lane has had, at the weight that it has now."""
        weight = self.limits[lane].weight
        return min(weight - 1, math.floor(self.turns[lane] * weight + Fraction(1, 2)))

    def room(self, lane: str) -> float:
        """How many jobs a lane may start now."""
        limits = self.limits[lane]
        return max(0, min(limits.concurrency - len(self.running[lane]), limits.left))

    def closed(self, lane: str) -> float | None:
        """Until when nothing of a lane may start; None if something may."""
        if lane in self.paused or self.limits[lane].concurrency <= len(self.running[lane]):
            return math.inf
        return None if self.limits[lane].left else RATE

    def start(self, lane: str, job_id: str) -> None:
        """Count a job that starts."""
        if self.limits[lane].concurrency < math.inf:
            self.running[lane].add(job_id)
        self.limits[lane].take()
        self.limits[None].take()

    def leave(self, lane: str, job_id: str) -> None:
        """Count a job that runs no more."""
        if job_id in self.running[lane]:
            self.running[lane].remove(job_id)
            if self.held.get(lane) == math.inf:
                self.reopen(lane)

    def settle(self, lane: str, has_work: bool) -> None:
        """Let a lane join the ring, or what is held, or leave them."""
        if not has_work:
            self.held.pop(lane, None)
            self.turns.pop(lane, None)
        elif lane not in self.held and lane not in self.turns:
            if lane in self.paused:
                self.held[lane] = math.inf
            else:
                self.turns[lane] = Fraction()

    def hold(self, lane: str, until: float) -> None:
        """Keep a lane that has a turn, or is held, from being served."""
        if self.turns.pop(lane, None) is not None or lane in self.held:
            self.held[lane] = until

    def reopen(self, lane: str) -> None:
        """Give a held lane a turn again, unless it is paused."""
        if lane in self.held and lane not in self.paused:
            del self.held[lane]
            self.turns[lane] = Fraction()

    def pause(self, lane: str) -> None:
        """Let nothing more of a lane start."""
        self.paused.add(lane)
        self.hold(lane, math.inf)

    def resume(self, lane: str) -> bool:
        """Let a lane start jobs again."""
        was = lane in self.paused
        self.paused.discard(lane)
        if was:
            self.reopen(lane)
        return was

    def limit(self, lane: str | None, limits: Limits) -> None:
        """Replace the limits of a lane, or of the queue."""
        self.limits[lane] = limits
        if lane is not None and limits.concurrency == math.inf:
            self.running.pop(lane, None)
        self.reopen(lane or "")

    def refill(self, lane: str | None) -> None:
        """Let so much time pass that a bucket is full."""
        self.limits[lane].tokens = self.limits[lane].rate
        if lane is not None and self.held.get(lane) == RATE:
            self.reopen(lane)
