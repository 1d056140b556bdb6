"""The keys of one queue. All share the hash tag `{queue}`, so that a script may touch them together."""

import re
from functools import cached_property

from echomq_django.bus import ids
from echomq_django.exceptions import InvalidName

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_HOLDER = re.compile(r"[!-~]{1,40}", re.ASCII)
_LANE_BYTES = 128


class Keyspace:
    """Builds the keys of `queue` below `prefix`, and refuses names that could meet another key.

    Raises `InvalidName` for a bad prefix, queue, lane or holder, and `InvalidJobId` for a bad id.
    """

    def __init__(self, prefix: str, queue: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise InvalidName(f"prefix {prefix!r}: use 1 to 64 of the characters A-Z a-z 0-9 _ . : -")
        if not _QUEUE.fullmatch(queue):
            raise InvalidName(f"queue name {queue!r}: use 1 to 64 of the characters A-Z a-z 0-9 _ . -")
        self.prefix, self.queue = prefix, queue
        self.base = f"{prefix}:{{{queue}}}:"

    @cached_property
    def pending(self) -> str:
        """ZSET: id -> order, the jobs of the lane ''."""
        return self.base + "pending"

    @cached_property
    def lanes(self) -> str:
        """ZSET: lane -> its next turn; only lanes that can be served now."""
        return self.base + "lanes"

    @cached_property
    def active(self) -> str:
        """ZSET: id -> lease deadline in server milliseconds."""
        return self.base + "active"

    @cached_property
    def scheduled(self) -> str:
        """ZSET: id -> due time in server milliseconds."""
        return self.base + "scheduled"

    @cached_property
    def suspect(self) -> str:
        """ZSET: id -> order, jobs that may have killed their process and are to be run alone."""
        return self.base + "suspect"

    @cached_property
    def isolated(self) -> str:
        """ZSET: lane -> its next turn; only lanes with pending jobs that are always run alone."""
        return self.base + "isolated"

    @cached_property
    def dead(self) -> str:
        """ZSET: id -> time of death, the deaths that the database does not have yet."""
        return self.base + "dead"

    @cached_property
    def held(self) -> str:
        """ZSET: lane -> when it may be served again; lanes with work that a limit or a pause holds back."""
        return self.base + "held"

    @cached_property
    def limits(self) -> str:
        """HASH: limits, weights and pauses of the queue and its lanes."""
        return self.base + "limits"

    @cached_property
    def slots(self) -> str:
        """HASH: schedule -> the last slot that was fired."""
        return self.base + "slots"

    @cached_property
    def handoff(self) -> str:
        """LIST: parcels of jobs that follow in another queue."""
        return self.base + "handoff"

    @cached_property
    def meta(self) -> str:
        """HASH: protocol, flow, paused, and what the passes of recovery know."""
        return self.base + "meta"

    @cached_property
    def events(self) -> str:
        """STREAM: what happened off the happy path."""
        return self.base + "events"

    @cached_property
    def wake(self) -> str:
        """LIST: at most one wake-up for an idle worker."""
        return self.base + "wake"

    def lane(self, lane: str) -> str:
        """Return the ZSET of the pending jobs of `lane`; '' is the queue's own."""
        return f"{self.base}g:{check_lane(lane)}:pending" if lane else self.pending

    def job(self, job_id: str) -> str:
        """Return the key of a job's row."""
        return f"{self.base}job:{ids.check(job_id)}"

    def progress(self, job_id: str) -> str:
        """Return the STRING that says how far a job is."""
        return f"{self.base}progress:{ids.check(job_id)}"

    def log(self, job_id: str) -> str:
        """Return the LIST of the last lines that a job wrote."""
        return f"{self.base}log:{ids.check(job_id)}"

    def group(self, group_id: str) -> str:
        """Return the SET of the members of a group that have not ended well."""
        return f"{self.base}group:{ids.check(group_id)}"

    def hand(self, holder: str) -> str:
        """Return the SET of the jobs that `holder` has in its hands."""
        return f"{self.base}hand:{check_holder(holder)}"


def check_lane(lane: str) -> str:
    """Return `lane`, or raise `InvalidName` if it is too long or holds control characters."""
    if not isinstance(lane, str) or len(lane.encode(errors="replace")) > _LANE_BYTES or not (lane.isprintable()):
        raise InvalidName(f"lane {lane!r}: use at most {_LANE_BYTES} bytes of printable text")
    return lane


def check_holder(holder: str) -> str:
    """Return `holder`, or raise `InvalidName` if a row has no room for it."""
    if not _HOLDER.fullmatch(holder):
        raise InvalidName(f"holder {holder!r}: use 1 to 40 printable ASCII characters")
    return holder
