"""The claiming thread of a child: claims, hands to the threads, and tells the server how jobs ended."""

import logging
import select
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from echomq_django.bus import jobs, schedule, wakeups
from echomq_django.bus.jobs import Completion, Death, Release, Retry, Verdict
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Done, Row
from echomq_django.exceptions import BusError, BusFull, BusUnavailable, ScriptFailed
from echomq_django.worker.backoff import Reconnection
from echomq_django.worker.board import boottime
from echomq_django.worker.hands import Ended, Hands, Held
from echomq_django.worker.prefetch import Prefetch
from echomq_django.worker.rota import Rota

logger = logging.getLogger("echomq_django.worker")

_INVENTORY_S = 10.0  # how often a child asks the server what it holds
_IDLE_S = 30.0  # supervisors see to it that no wake-up is lost, and a link is watched by the wait itself
_HELD_BACK_S = 0.02  # an end is told no later than this, whatever else runs
_STUCK_S = 0.25  # a job that waits longer for a thread could run elsewhere
VERBS: dict[type, Callable[..., list[Verdict]]] = {
    Completion: jobs.complete,
    Retry: jobs.retry,
    Death: jobs.die,
    Release: jobs.release,
}


class Source:
    """Where a consumer gets its jobs: the lanes of a queue, or what is to be run alone."""

    def __init__(self, queues: Sequence[Queue], holder: str, *, alone: bool = False) -> None:
        self.queues, self.holder, self.alone = queues, holder, alone
        self._unsure: dict[int, bytes] = {}

    def claim(self, index: int, count: int, starting: int) -> list[Held]:
        """Claim from one queue; after a lost reply the same claim is said again, so that no lease is forgotten."""
        queue, asked = self.queues[index], boottime()
        again = index in self._unsure
        nonce = self._unsure.setdefault(index, jobs.new_nonce())
        rows = self._rows(queue, nonce, count, starting, again)
        del self._unsure[index]
        return [Held(queue, index, row, asked + row.lease_ms / 1000, asked) for row in rows]

    def _rows(self, queue: Queue, nonce: bytes, count: int, starting: int, again: bool) -> list[Row]:
        if not self.alone:
            return jobs.claim(queue, self.holder, nonce, count, starting=starting, again=again)
        row = jobs.claim_alone(queue, self.holder, nonce, again=again)
        return [row] if row else []


class Consumer:
    """One thread's loop of turns. Each turn tells the server what ended, claims what there is room for, and else waits.

    After `stopping` is set it claims no more and hands back what has not started. `announce` hears of each end that the
    server has accepted, `call` that something is to be run alone.
    """

    def __init__(
        self,
        source: Source,
        rota: Rota,
        hands: Hands,
        prefetch: Prefetch,
        announce: Callable[[Ended], None],
        call: Callable[[], None],
    ) -> None:
        self.stopping = False
        self.woken_at = 0.0  # in `boottime()`
        self._source, self._rota, self._hands, self._prefetch = source, rota, hands, prefetch
        self._announce, self._call = announce, call
        self._wakeups = wakeups.WakeUps(source.queues[0].client, source.queues)
        self._unsettled: list[Ended] = []
        self._reconnection, self._polling = Reconnection(), Reconnection()
        self._inventory_at = boottime() + _INVENTORY_S

    @property
    def finished(self) -> bool:
        """Whether nothing is left in the hands and the server knows of every end."""
        return not self._hands and not self._unsettled

    def turn(self, watched: int, longest: float = _IDLE_S) -> bool:
        """Do one turn; True if the descriptor `watched` became readable meanwhile."""
        try:
            if self.work():
                return False
            longest = min(longest, self._prepare_to_wait())
            if not self.stopping:  # then maybe nothing was said to it
                self._say_if_back()
        except BusError as error:
            return self._wait(watched, self._pause(error))
        return False if self.stopping and self.finished else self._wait(watched, longest)

    def work(self) -> bool:
        """Tell the server what ended, and claim what there is room for; True if there may be more to claim."""
        self._hand_back(self._hands.take_back(older_than=0.0 if self.stopping else _STUCK_S))
        self._settle()
        claimed = self._fill()  # first, for a claim whose reply got lost is said again there
        if boottime() >= self._inventory_at:
            self._take_inventory()
        return claimed

    def give_up(self) -> None:
        """Hand everything back without a stall, also what runs: its end would come too late."""
        self._collect()
        untold = {one.held for one in self._unsettled}
        self._hand_back([one for one in self._hands.held if one not in untold])
        try:
            self._settle()
        except BusError as error:
            logger.warning("%d jobs are not handed back, their leases will expire: %s", len(self._unsettled), error)

    def leave(self) -> None:
        """Give back the wake-ups that this consumer may have taken, so that others hear of waiting jobs."""
        self._wakeups.close()
        for queue in self._source.queues:
            try:
                wakeups.pass_on(queue)
            except BusError as error:
                logger.warning("queue %s: no other worker could be woken: %s", queue.name, error)

    def _collect(self) -> None:
        for ended in self._hands.ended():
            self._prefetch.measured(ended.seconds)
            self._unsettled.append(ended)

    def _settle(self) -> None:
        self._collect()
        groups: dict[tuple[int, type], list[Ended]] = defaultdict(list)
        for ended in self._unsettled:
            groups[ended.held.index, type(ended.end)].append(ended)
        for (index, kind), group in groups.items():
            self._tell(self._source.queues[index], VERBS[kind], group)

    def _tell(self, queue: Queue, verb: Callable[..., list[Verdict]], group: list[Ended]) -> None:
        try:
            verdicts = verb(queue, self._source.holder, [ended.end for ended in group])
        except BusFull:
            logger.warning("queue %s: the server is full, results of %d jobs are not stored", queue.name, len(group))
            verdicts = verb(queue, self._source.holder, [_without_result(ended) for ended in group])
        except BusUnavailable:
            for ended in group:
                ended.told = True
            raise
        except ScriptFailed as error:
            logger.error("queue %s: the end of %d jobs is refused; they come back: %s", queue.name, len(group), error)
            verdicts = []
        told = set(map(id, group))
        self._unsettled = [ended for ended in self._unsettled if id(ended) not in told]
        self._hands.let_go(ended.held for ended in group)
        for ended, verdict in zip(group, verdicts, strict=False):
            self._heard(ended, verdict)

    def _heard(self, ended: Ended, verdict: Verdict) -> None:
        counted = verdict is Verdict.MISSING and ended.told  # and left no trace, or was moved to the database since
        if verdict is Verdict.ACCEPTED or counted:
            self._announce(ended)
        else:
            what = "was taken over" if verdict is Verdict.STALE else "is gone"
            logger.warning("job %s %s: its late %s is refused", ended.held.row.job_id, what, type(ended.end).__name__)

    def _fill(self) -> bool:
        """Claim what there is room for; True if all of it is taken: there may be more.

        While a wait is under way there is nothing to be had.
        """
        room = self._room
        if self.stopping or self._wakeups.armed or room <= 0:
            return False
        for index in self._rota.turn():
            claimed = self._source.claim(index, room, self._hands.idle_threads)
            if claimed:
                self._hands.add(claimed)
            room -= len(claimed)
            if room <= 0:
                break
        return room <= 0

    def _prepare_to_wait(self) -> float:
        """Promote what is due, start to wait for work, and return the seconds until something else is to be done."""
        longest = _HELD_BACK_S if self._hands.waiting else _IDLE_S
        if self.stopping or self._source.alone or self._room <= 0:
            return longest
        if not self._wakeups.armed:
            passes = [schedule.promote(queue) for queue in self._source.queues]
            if any(one.alone for one in passes):
                self._call()
            longest = min([longest, *(one.next_due_ms / 1000 for one in passes if one.next_due_ms is not None)])
            self._wakeups.arm(longest)
        self._wakeups.check()
        return longest

    def _wait(self, watched: int, longest: float) -> bool:
        sources = [watched, self._hands.fileno()] + ([self._wakeups.fileno()] if self._wakeups.armed else [])
        ready, _, _ = select.select(sources, [], [], longest + 0.05 if self._wakeups.armed else longest)
        if self._wakeups.armed and self._wakeups.fileno() in ready:
            self._take_wakeup()
        return watched in ready

    def _take_wakeup(self) -> None:
        try:
            if self._wakeups.take():
                self.woken_at = boottime()
            self._polling.worked()
        except BusUnavailable as error:
            logger.debug("the wait for work broke off: %s", error)
        except BusError as error:  # asked again at once, the server would say the same
            self._wakeups.close()
            if not self._polling.waiting:
                logger.error("no wake-ups from the server, asking for work every second: %s", error)
            time.sleep(self._polling.failed())

    def _take_inventory(self) -> None:
        """Hand back what the server believes to be in these hands and is not: nobody else would ever take it."""
        mine = {one.row.token for one in self._hands.held} | {one.held.row.token for one in self._unsettled}
        for queue in self._source.queues:
            held = jobs.extend(queue, self._source.holder)
            strays = [Release(job_id, token) for job_id, token in held.items() if token not in mine]
            if strays:
                logger.error("queue %s: handing back %d jobs that were held by nobody", queue.name, len(strays))
                jobs.release(queue, self._source.holder, strays)
        self._inventory_at = boottime() + _INVENTORY_S

    def _hand_back(self, held: list[Held]) -> None:
        self._unsettled += [Ended(one, Release(one.row.job_id, one.row.token)) for one in held]

    def _pause(self, error: BusError) -> float:
        self._wakeups.close()
        if not self._reconnection.waiting:
            logger.error("the server is gone, trying again: %s", error)
        return self._reconnection.failed()

    def _say_if_back(self) -> None:
        if self._reconnection.worked():
            logger.info("the server is back")

    @property
    def _room(self) -> int:
        """How many jobs to claim now: what fits into the hand, but no small portions while others wait in it."""
        most = self._hands.threads + self._prefetch.reserve
        room = most - len(self._hands)
        return room if 2 * room >= most or not self._hands.waiting else 0


def _without_result(ended: Ended) -> object:
    if not isinstance(ended.end, Completion):
        return ended.end
    task, holder, _ = ended.end.result.split(b"\0", 2)
    return ended.end._replace(result=Done.pack_result(task.decode(), holder.decode(), b""))
