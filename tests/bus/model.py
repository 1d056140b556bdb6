"""The bus in plain Python: what each verb should answer, and what should become of each job.

It keeps one row for each live job. Where a job is follows from its row; the invariants say whether the server agrees.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from echomq_django.bus.jobs import Cancelled, Entry, NewJob, Unique, Verdict
from echomq_django.bus.row import Failure, Row, State, Token
from tests.bus.ring import Ring

NO_NONCE = bytes(8)
WAITING = (State.SCHEDULED, State.PENDING)


@dataclass
class Model:
    """All jobs that ever were: live ones by their row, ended ones by the fence that ended them, and those that left."""

    rows: dict[str, Row] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    over: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: set[str] = field(default_factory=set)
    opened: set[str] = field(default_factory=set)
    handoff: list[bytes] = field(default_factory=list)
    ring: Ring = field(default_factory=Ring)
    alone: list[str] = field(default_factory=list)  # lanes with isolated jobs, in turn

    def add(self, job: NewJob) -> Entry:
        """Enqueue `job`; its instants are the server's to tell."""
        if job.job_id in self.rows or job.job_id in self.done or job.job_id in self.aliases:
            return Entry.KNOWN
        self.gone.discard(job.job_id)
        if unique := (job.extras or {}).get("unique"):
            if winner := self._winner(unique):
                self.aliases[job.job_id] = winner
                return Entry.MERGED
            self.locks[unique["key"]] = job.job_id
        after = (job.extras or {}).get("after")
        if waits := after and len(self.over[after["group"]]) < after["size"]:
            self.waiting.add(job.job_id)
        state = State.SCHEDULED if job.delay_ms or waits else State.PENDING
        self.rows[job.job_id] = Row(
            job.job_id, state, job.lane, job.priority, job.max_stalled, job.lease_ms, 0, 0, job.body,
            extras=dict(job.extras or {}),
        )  # fmt: skip
        self._settle(job.lane)
        return Entry.ADDED

    def pending(self, lane: str) -> list[str]:
        """The jobs of a lane in their order."""
        return [row.job_id for row in self._line(lane) if not _is_isolated(row)]

    def isolated(self, lane: str) -> list[str]:
        """The jobs of a lane that are always run alone, in their order."""
        return [row.job_id for row in self._line(lane) if _is_isolated(row)]

    def active(self, holder: str | None = None) -> set[str]:
        """The jobs in the hand of `holder`, or of anybody."""
        held = (row for row in self.rows.values() if row.state is State.ACTIVE)
        return {row.job_id for row in held if holder in (None, row.holder)}

    def next_claim(self, number: int) -> list[str]:
        """Take `number` jobs out of their lanes, as far as the limits allow."""
        return self.ring.serve(min(number, self.ring.queue_room(len(self.active()))), self.pending)

    def next_suspect(self) -> str | None:
        """The oldest job that is to be run alone for its past and whose lane has room."""
        waiting = [row for row in self.rows.values() if row.state is State.SUSPECT]
        free = [row for row in waiting if self.ring.closed(row.lane) is None]
        if not free or not self.ring.queue_room(len(self.active())):
            return None
        return min(free, key=lambda row: (row.order, row.job_id)).job_id

    def next_isolated(self) -> str | None:
        """The lane whose isolated jobs come next."""
        if not self.ring.queue_room(len(self.active())):
            return None
        return next((lane for lane in self.alone if self.ring.closed(lane) is None), None)

    def next_alone(self) -> tuple[list[str], str | None]:
        """Take the job that is to be run alone next, behind those before it whose time is over."""
        suspect, lane = self.next_suspect(), self.next_isolated()
        if suspect or lane is None:
            return [], suspect
        self.alone.remove(lane)
        self.alone.append(lane)
        line = self.isolated(lane)
        late = list(takewhile(lambda job_id: "expires" in self.rows[job_id].extras, line))
        return late, next(iter(line[len(late) :]), None)

    def lease(self, job_id: str, holder: str, token: Token, claimed_at: int, *, started: bool) -> None:
        """Put a job into a hand."""
        row = self.rows[job_id]
        self.ring.start(row.lane, job_id)
        self.rows[job_id] = replace(
            row, state=State.ACTIVE, started=started, attempts=row.attempts + 1, claimed_at=claimed_at,
            token=token, holder=holder,
        )  # fmt: skip
        self._settle_alone(row.lane)

    def expire(self, job_id: str, token: Token) -> None:
        """Let a job die that nobody started in time."""
        row = self.rows[job_id]
        self.rows[job_id] = replace(
            row, state=State.DEAD, attempts=row.attempts + 1, deaths=row.deaths + 1, token=token,
            failure=Failure("expired"),
        )  # fmt: skip
        self._settle_alone(row.lane)
        self._let_go(row)

    def start(self, holder: str, leases: Iterable[Row]) -> None:
        """Let jobs start that `holder` still has under `leases`."""
        for lease in leases:
            if self.holds(lease) and self.rows[lease.job_id].holder == holder:
                self.rows[lease.job_id].started = True

    def holds(self, lease: Row) -> bool:
        """Whether `lease` is the current one of its job."""
        row = self.rows.get(lease.job_id)
        return row is not None and row.state is State.ACTIVE and row.token == lease.token

    def verdict(self, lease: Row, *replayed: State) -> Verdict:
        """What a holder hears who ends `lease`; `replayed` are the states in which it would be an old story."""
        row = self.rows.get(lease.job_id)
        if row is None:
            if lease.job_id in self.cancelled and self.done[lease.job_id] == lease.token.fence:
                return Verdict.ACCEPTED if replayed else Verdict.STALE
            return Verdict.STALE if lease.job_id in self.done.keys() | self.aliases.keys() else Verdict.MISSING
        same = row.token == lease.token
        return Verdict.ACCEPTED if same and row.state in (State.ACTIVE, *replayed) else Verdict.STALE

    def complete(self, lease: Row, *, keep: bool, follower: NewJob | None = None) -> Verdict:
        """End a job well; its `follower`, if it has one, is enqueued."""
        if self.done.get(lease.job_id) == lease.token.fence and lease.job_id not in self.cancelled:
            return Verdict.ACCEPTED
        verdict = self.verdict(lease)
        if verdict is Verdict.ACCEPTED:
            self._leave_group(self._let_go(self._unlease(self.rows.pop(lease.job_id))))
            if follower:
                self.add(follower)
            if keep:
                self.done[lease.job_id] = lease.token.fence
            else:
                self.gone.add(lease.job_id)
        return verdict

    def retry(self, lease: Row, failure: Failure) -> Verdict:
        """Fail a job and schedule it again."""
        verdict = self.verdict(lease, *WAITING)
        if self.holds(lease):
            row = self._unlease(self.rows[lease.job_id])
            self._turn(row, state=State.SCHEDULED, failures=row.failures + 1, failure=failure)
        return verdict

    def release(self, lease: Row, failure: Failure | None, *, later: bool) -> Verdict:
        """Hand a job back, perhaps with the reason for which it can't start."""
        verdict = self.verdict(lease, *WAITING)
        if self.holds(lease):
            row = self._unlease(self.rows[lease.job_id])
            self._turn(row, state=State.SCHEDULED if later else State.PENDING, failure=failure or row.failure)
        return verdict

    def die(self, lease: Row, failure: Failure) -> Verdict:
        """Give a job up."""
        verdict = self.verdict(lease, State.DEAD)
        if self.holds(lease) and self.rows[lease.job_id].cancelled:
            self._end_cancelled(self._unlease(self.rows[lease.job_id]))
        elif self.holds(lease):
            row = self._let_go(self._unlease(self.rows[lease.job_id]))
            self._move(row, state=State.DEAD, failures=row.failures + 1, deaths=row.deaths + 1, failure=failure)
        return verdict

    def lose(self, job_ids: Iterable[str]) -> dict[str, list[str]]:
        """Let leases expire and recovery take them back."""
        became: dict[str, list[str]] = {"stalled": [], "died": [], "unstarted": []}
        for job_id in sorted(job_ids):
            row = self.rows[job_id]
            became[self._stall(row) if row.started else self._hand_back(row)].append(job_id)
        return became

    def abandon(self, holder: str, running: Collection[tuple[str, int]]) -> dict[str, list[str]]:
        """Let a holder die while it ran `running`."""
        became: dict[str, list[str]] = {"stalled": [], "died": [], "unstarted": [], "suspect": []}
        rows = [self.rows[job_id] for job_id in sorted(self.active(holder))]
        charged = [row for row in rows if (row.job_id, row.token.fence) in running]
        for row in rows:
            if row not in charged:
                became[self._hand_back(row)].append(row.job_id)
            elif len(charged) == 1:
                became[self._stall(row)].append(row.job_id)
            else:
                self._turn(self._unlease(row), state=State.SUSPECT, token=Token(row.token.fence, NO_NONCE))
                became["suspect"].append(row.job_id)
        return became

    def promote(self, job_ids: Iterable[str]) -> None:
        """Let scheduled jobs become due, and with them those whose group is over."""
        for job_id in sorted({*job_ids, *self.opened}):
            self._move(self.rows[job_id], state=State.PENDING)

    def hasten(self, ms: int) -> int:
        """Bring what waits for a time forward."""
        rows = [row for row in self.rows.values() if row.state is State.SCHEDULED and row.job_id not in self.waiting]
        for row in rows:
            row.order, row.enqueued_at = row.order - ms, row.enqueued_at - ms
        return len(rows)

    def forget(self, death: Row) -> bool:
        """Drop a death that the database has."""
        row = self.rows.get(death.job_id)
        if row is None or row.state is not State.DEAD or row.token != death.token:
            return False
        self._leave(row)
        return True

    def requeue(self, death: Row) -> bool:
        """Give a dead job a new life."""
        row = self.rows.get(death.job_id)
        ended = death.job_id in self.done or death.job_id in self.aliases
        if ended or (row and (row.state is not State.DEAD or row.token != death.token)):
            return False
        self.gone.discard(death.job_id)
        life: dict[str, object] = {
            "failures": 0,
            "stalled": 0,
            "failure": None,
            "holder": "",
            "claimed_at": 0,
            "via_outbox": True,
        }
        life |= {
            "cancelled": False,
            "extras": {name: death.extras[name] for name in death.extras.keys() & {"group", "isolate"}},
        }
        self._move(death, state=State.PENDING, token=Token(death.token.fence, NO_NONCE), **life)
        return True

    def discard(self, job_id: str) -> Verdict:
        """Take a job out for good."""
        row = self.rows.get(job_id)
        if row is None:
            return Verdict.MISSING
        if row.state is State.ACTIVE:
            return Verdict.STALE
        self._leave(self._leave_group(self._let_go(row)))
        return Verdict.ACCEPTED

    def cancel(self, job_id: str) -> Cancelled:
        """End a job that waits, or ask it to stop."""
        row = self.rows.get(job_id)
        if row is None:
            merged = Cancelled.MERGED if job_id in self.aliases else Cancelled.MISSING
            return Cancelled.OVER if job_id in self.done else merged
        if row.state is State.DEAD:
            return Cancelled.OVER
        if row.state is State.ACTIVE:
            row.cancelled = True
            return Cancelled.ASKED
        self._end_cancelled(row)
        return Cancelled.NOW

    def _winner(self, unique: Unique) -> str | None:
        winner = self.locks.get(unique["key"])
        row = self.rows.get(winner or "")
        if row is None or row.state is State.DEAD:
            return None
        return winner if unique["mode"] == "done" or row.state in WAITING else None

    def _unlease(self, row: Row) -> Row:
        self.ring.leave(row.lane, row.job_id)
        return row

    def _let_go(self, row: Row) -> Row:
        if (unique := row.extras.get("unique")) and self.locks.get(unique["key"]) == row.job_id:
            del self.locks[unique["key"]]
        return row

    def _leave_group(self, row: Row) -> Row:
        if group := row.extras.get("group"):
            self.over[group["id"]].add(row.job_id)
            if len(self.over[group["id"]]) >= group["size"] and group["after"] in self.waiting:
                self.waiting.remove(group["after"])
                self.opened.add(group["after"])
        return row

    def _end_cancelled(self, row: Row) -> None:
        self._leave(self._leave_group(self._let_go(row)))
        self.gone.discard(row.job_id)
        self.cancelled.add(row.job_id)
        self.done[row.job_id] = row.token.fence

    def _turn(self, row: Row, **changes: object) -> None:
        """Give a job another turn, unless it was asked to stop."""
        if row.cancelled:
            self._end_cancelled(row)
        else:
            self._move(row, **changes)

    def _stall(self, row: Row) -> str:
        self._unlease(row)
        stalled, token = row.stalled + 1, Token(row.token.fence, NO_NONCE)
        if row.max_stalled is None or stalled < row.max_stalled - 1:
            self._turn(row, state=State.PENDING, stalled=stalled, token=token)
        elif stalled < row.max_stalled or row.cancelled:
            self._turn(row, state=State.SUSPECT, stalled=stalled, token=token)
        else:
            failure = replace(row.failure or Failure(""), reason="stalled")
            self._let_go(row)
            self._move(row, state=State.DEAD, stalled=stalled, deaths=row.deaths + 1, failure=failure)
            return "died"
        return "stalled"

    def _hand_back(self, row: Row) -> str:
        self._turn(self._unlease(row), state=State.PENDING, token=Token(row.token.fence, NO_NONCE))
        return "unstarted"

    def _move(self, row: Row, **changes: object) -> None:
        self.rows[row.job_id] = replace(row, started=False, **changes)
        self._unschedule(row)

    def _leave(self, row: Row) -> None:
        del self.rows[row.job_id]
        self.gone.add(row.job_id)
        self._unschedule(row)

    def _unschedule(self, row: Row) -> None:
        self.waiting.discard(row.job_id)
        self.opened.discard(row.job_id)
        self._settle(row.lane)

    def _settle(self, lane: str) -> None:
        self.ring.settle(lane, bool(self.pending(lane)))
        self._settle_alone(lane)

    def _settle_alone(self, lane: str) -> None:
        if not self.isolated(lane):
            self.alone = [one for one in self.alone if one != lane]
        elif lane not in self.alone:
            self.alone.append(lane)

    def _line(self, lane: str) -> list[Row]:
        waiting = [row for row in self.rows.values() if row.state is State.PENDING and row.lane == lane]
        return sorted(waiting, key=lambda row: (row.order, row.job_id))


def _is_isolated(row: Row) -> bool:
    return bool(row.extras.get("isolate"))
