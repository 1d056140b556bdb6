"""Thousands of random lives: after each move the server must show what a small model in Python says.

EMQ_MACHINE names how long: `quick` (some 20 seconds), `ci` (minutes) or `deep` (an hour).
"""

import faulthandler
import math
import operator
import os
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from echomq_django.bus import dead, groups, ids, jobs, limits, recovery, schedule
from echomq_django.bus.jobs import Entry, NewJob
from echomq_django.bus.queue import Queue
from echomq_django.bus.row import Done, Row, State, alias_of
from tests.bus import scenes
from tests.bus.model import Model
from tests.bus.ring import RATE, Limits
from tests.bus.scenes import FAILURE, OBSTACLE, SOON, W1, W2
from tests.bus.view import view
from tests.invariants import check

PROFILES = {"quick": (150, 50), "ci": (500, 60), "deep": (5000, 100)}
for name, (examples, steps) in PROFILES.items():
    settings.register_profile(
        f"machine-{name}",
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
PROFILE = settings.get_profile(f"machine-{os.environ.get('EMQ_MACHINE', 'quick')}")

extras = st.sampled_from(
    [{}] * 4 + [{"expires": 0}] + [scenes.unique(mode, key=key) for mode in ("done", "start") for key in "kl"]
)
extras = st.builds(operator.or_, extras, st.sampled_from([{}, {}, {"isolate": True}]))
# A rate of a few in an hour gives no token back while a test runs, so that the model needs no clock.
bounds = st.fixed_dictionaries(
    {}, optional={"concurrency": st.integers(1, 3), "rate": st.integers(1, 3), "weight": st.integers(1, 3)}
)
lanes, holders = st.sampled_from(["", "a", "b"]), st.sampled_from([W1, W2])
claim = st.fixed_dictionaries(
    {"holder": holders, "number": st.integers(1, 6), "starting": st.integers(0, 6), "lost": st.booleans()}
)
fresh = st.fixed_dictionaries(
    {
        "lane": lanes,
        "priority": st.integers(-1, 1),
        "delay_ms": st.sampled_from([0, 0, 0, SOON]),
        "max_stalled": st.sampled_from([1, 2, 3, None]),
        "extras": extras,
    }
)


def some(*states):
    """Make a rule wait until there is a job in one of `states`."""
    return precondition(lambda self: any(row.state in states for row in self.model.rows.values()))


class Lives(RuleBasedStateMachine):
    """Jobs that live, die and come back, with holders that act on leases which they may have lost long ago."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        queue.client.flushdb()
        self.queue, self.model = queue, Model()
        self.other = Queue(queue.client, queue.keys.prefix, "reports")
        self.unborn: list[NewJob] = []
        self.abroad: list[str] = []
        self.ever: list[str] = []
        self.leases: list[Row] = []
        self.deaths: list[Row] = []
        self.fences: dict[str, int] = {}

    @initialize(batch=st.lists(fresh, min_size=2, max_size=8), tight=st.dictionaries(st.none() | lanes, bounds))
    def begin(self, batch, tight):
        self.enqueue(batch)
        for lane, few in tight.items():
            self.limit(lane, few)

    @rule(batch=st.lists(fresh, min_size=1, max_size=4))
    def enqueue(self, batch):
        new = [scenes.new_job(self.queue, **options) for options in batch]
        assert jobs.enqueue(self.queue, [*new, new[0]]) == [*map(self.model.add, new), Entry.KNOWN]
        self._born(new)

    @rule(size=st.integers(1, 3), lane=lanes, late=st.booleans(), delay_ms=st.sampled_from([0, SOON]))
    def enqueue_group(self, size, lane, late, delay_ms):
        group = scenes.a_group(self.queue, size)
        after = {"group": group["id"], "size": size, "far": False}
        then = scenes.new_job(self.queue, job_id=group["after"], lane=lane, delay_ms=delay_ms, extras={"after": after})
        members = [scenes.new_job(self.queue, lane=lane, extras={"group": group}) for _ in range(size)]
        new = members if late else [then, *members]
        self.unborn += [then] if late else []
        assert jobs.enqueue(self.queue, new) == list(map(self.model.add, new))
        self._born(new)

    @precondition(lambda self: self.unborn)
    @rule()
    def enqueue_what_waits_for_a_group(self):
        then = self.unborn.pop()
        assert jobs.enqueue(self.queue, [then]) == [self.model.add(then)]
        self._born([then])

    @precondition(lambda self: self.model.done or self.model.gone)
    @rule(data=st.data(), lane=lanes, extras=extras)
    def enqueue_again(self, data, lane, extras):
        job = scenes.new_job(self.queue, job_id=data.draw(st.sampled_from(self.ever)), lane=lane, extras=extras)
        assert jobs.enqueue(self.queue, [job]) == [self.model.add(job)]
        self._learn(job.job_id)

    @some(State.PENDING)
    @rule(claims=st.lists(claim, min_size=1, max_size=4))
    def claim(self, claims):
        for one in claims:
            self._claim(**one)

    @precondition(lambda self: self.model.alone or self._of(State.SUSPECT))
    @rule(holder=holders)
    def claim_alone(self, holder):
        row = jobs.claim_alone(self.queue, holder, scenes.nonce())
        late, taken = self.model.next_alone()
        assert getattr(row, "job_id", None) == taken
        self._expire(late)
        if row:
            self._leased(row, holder, started=True)

    @rule(data=st.data(), holder=holders)
    def extend(self, data, holder):
        started = self._running(data)
        renewed = jobs.extend(self.queue, holder, [(row.job_id, row.token.fence) for row in started])
        assert renewed == {job_id: self.model.rows[job_id].token for job_id in self.model.active(holder)}
        self.model.start(holder, started)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), keep=st.booleans(), lane=lanes, follows=st.sampled_from(["", "", "mail", "reports"]))
    def complete(self, data, keep, lane, follows):
        lease = self._lease(data)
        end, fresh = scenes.completion(lease, 600_000 if keep else 0), self.model.holds(lease)
        follower = scenes.new_job(self.queue, job_id=ids.mint(follows), lane=lane) if follows else None
        if follower:
            end = end._replace(parcel=follower.parcel(follows))
        near = follower if follows == "mail" else None
        assert jobs.complete(self.queue, lease.holder, [end]) == [self.model.complete(lease, keep=keep, follower=near)]
        self.model.handoff += [end.parcel] if follows == "reports" and fresh else []
        self._born([near] if near and fresh else [])

    @precondition(lambda self: self.model.handoff)
    @rule(again=st.booleans())
    def run_errand(self, again):
        (errand,) = groups.errands(self.queue, 1)
        assert errand.raw == self.model.handoff.pop(0)
        for _ in range(1 + again):
            assert groups.run_errand(self.queue, errand, self.other)
        self.abroad.append(errand.parcel.job_id)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def retry(self, data):
        lease = self._lease(data)
        verdicts = jobs.retry(self.queue, lease.holder, [scenes.retry(lease)])
        assert verdicts == [self.model.retry(lease, FAILURE)]
        self._learn(lease.job_id)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), later=st.booleans(), failure=st.sampled_from([None, OBSTACLE]))
    def release(self, data, later, failure):
        lease = self._lease(data)
        verdicts = jobs.release(self.queue, lease.holder, [scenes.release(lease, SOON if later else 0, failure)])
        assert verdicts == [self.model.release(lease, failure, later=later)]
        self._learn(lease.job_id)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def die(self, data):
        lease = self._lease(data)
        verdicts = jobs.die(self.queue, lease.holder, [scenes.death(lease)])
        assert verdicts == [self.model.die(lease, FAILURE)]
        self._note_deaths()

    @some(State.ACTIVE)
    @rule(data=st.data())
    def lose_leases(self, data):
        lost = self._some(data, State.ACTIVE)
        scenes.expire(self.queue, *lost)
        expected = self.model.lose(row.job_id for row in lost)
        recovered = recovery.recover(self.queue)
        assert {kind: sorted(getattr(recovered, kind)) for kind in expected} == expected
        self._note_deaths()

    @some(State.ACTIVE)
    @rule(data=st.data(), holder=holders)
    def abandon(self, data, holder):
        ran = [(row.job_id, row.token.fence) for row in self._running(data)]
        known = list(self.model.ring.turns)
        expected = self.model.abandon(holder, ran)
        recovered = recovery.abandon(self.queue, holder, ran)
        assert {kind: sorted(getattr(recovered, kind)) for kind in expected} == expected
        self._adopt_turns(known)
        self._note_deaths()

    @some(State.SCHEDULED)
    @rule(data=st.data())
    def promote(self, data):
        drawn = [row.job_id for row in self._some(data, State.SCHEDULED)]
        due = {*drawn, *self.model.opened} - self.model.waiting
        scenes.make_due(self.queue, *due)
        promoted = schedule.promote(self.queue)
        self.model.promote(due)
        may_run_alone = self.model.next_suspect() is not None or self.model.next_isolated() is not None
        assert (promoted.count, promoted.alone) == (len(due), may_run_alone)

    @some(State.SCHEDULED)
    @rule(ms=st.integers(1, 1000))
    def hasten(self, ms):
        assert schedule.hasten(self.queue, ms) == self.model.hasten(ms)

    @precondition(lambda self: self.deaths)
    @rule(data=st.data())
    def forget(self, data):
        death = data.draw(st.sampled_from(self.deaths))
        assert dead.forget(self.queue, [(death.job_id, str(death.token))]) == [self.model.forget(death)]

    @precondition(lambda self: self.deaths)
    @rule(data=st.data())
    def requeue(self, data):
        death = data.draw(st.sampled_from(self.deaths))
        revival = scenes.revival(death, extras=scenes.lasting(death))
        assert dead.requeue(self.queue, revival) == self.model.requeue(death)
        self._learn(death.job_id)

    @precondition(lambda self: len(self.model.rows) > 4)
    @rule(data=st.data())
    def discard(self, data):
        job_id = data.draw(st.sampled_from(self.ever))
        assert jobs.discard(self.queue, job_id) is self.model.discard(job_id)

    @rule(data=st.data())
    def cancel(self, data):
        job_id = data.draw(st.sampled_from(self.ever))
        assert jobs.cancel(self.queue, job_id) is self.model.cancel(job_id)

    @rule(lane=lanes, again=st.booleans())
    def pause_or_resume(self, lane, again):
        if again:
            assert limits.resume(self.queue, lane=lane) == self.model.ring.resume(lane)
        else:
            limits.pause(self.queue, lane=lane)
            self.model.ring.pause(lane)

    @rule(lane=st.none() | lanes, bounds=bounds)
    def limit(self, lane, bounds):
        bounds = bounds | {"weight": 1} if lane is None else bounds
        rate = bounds.get("rate")
        limits.set(self.queue, lane=lane, **bounds | {"rate": f"{rate}/h"} if rate else bounds)
        self.model.ring.limit(lane, Limits(**bounds))

    @precondition(lambda self: any(one.rate for one in self.model.ring.limits.values()))
    @rule(data=st.data())
    def wait_for_a_rate(self, data):
        lane = data.draw(st.sampled_from([lane for lane, one in self.model.ring.limits.items() if one.rate]))
        scenes.fill_bucket(self.queue, lane)
        self.model.promote([])
        self.model.ring.refill(lane)
        schedule.promote(self.queue)

    @invariant()
    def every_job_is_in_one_place_and_as_the_model_has_it(self):
        check(self.queue.client, self.queue.keys.prefix)
        seen = view(self.queue)
        rows = {name.removeprefix("job:"): row for name, row in seen.items() if name.startswith("job:")}
        assert {job_id: row for job_id, row in rows.items() if isinstance(row, Row)} == self.model.rows
        assert {job_id: row.fence for job_id, row in rows.items() if isinstance(row, Done)} == self.model.done
        turns = sorted(seen.get("lanes", {}).items(), key=lambda turn: turn[1])
        assert [(lane, pytest.approx(turn % 1)) for lane, turn in turns] == [*self.model.ring.turns.items()]
        assert sorted(seen.get("isolated", {}), key=seen.get("isolated", {}).get) == self.model.alone
        held = {lane: until if until == math.inf else RATE for lane, until in seen.get("held", {}).items()}
        assert held == self.model.ring.held
        assert {job_id for job_id, due in seen.get("scheduled", {}).items() if due == math.inf} == self.model.waiting
        over = {name.removeprefix("group:"): members for name, members in seen.items() if name.startswith("group:")}
        assert over == {group_id: members for group_id, members in self.model.over.items() if members}
        assert seen.get("handoff", []) == self.model.handoff
        assert {name for name in view(self.other) if name.startswith("job:")} == {f"job:{one}" for one in self.abroad}
        aliases = {job_id: alias_of(raw) for job_id, raw in rows.items() if isinstance(raw, bytes)}
        assert aliases == self.model.aliases
        unmirrored = [one.row for one in dead.unmirrored(self.queue)]
        assert sorted(unmirrored, key=_id) == self._of(State.DEAD)

    def teardown(self):
        accounted = [*self.model.rows, *self.model.done, *self.model.gone, *self.model.aliases]
        assert sorted(accounted) == sorted(self.ever)

    def _claim(self, holder, number, starting, lost):
        nonce = scenes.nonce()
        rows = jobs.claim(self.queue, holder, nonce, number, starting=starting)
        taken = self.model.next_claim(number)
        late = [job_id for job_id in taken if "expires" in self.model.rows[job_id].extras]
        assert [row.job_id for row in rows] == [job_id for job_id in taken if job_id not in late]
        self._expire(late)
        for place, row in enumerate(rows):
            self._leased(row, holder, started=place < starting)
        if lost and rows:  # an answer without jobs is nothing to hear again
            again = jobs.claim(self.queue, holder, nonce, number, starting=starting, again=True)
            assert sorted(again, key=_id) == sorted(rows, key=_id)

    def _expire(self, late):
        for job_id in late:
            self.model.expire(job_id, scenes.stored(self.queue, job_id).token)
        self._note_deaths()

    def _leased(self, row, holder, *, started):
        assert row.token.fence > self.fences.get(row.job_id, 0)
        self.fences[row.job_id] = row.token.fence
        self.model.lease(row.job_id, holder, row.token, row.claimed_at, started=started)
        self.leases.append(row)

    def _born(self, new):
        for job in new:
            self._learn(job.job_id)
            self.ever.append(job.job_id)

    def _learn(self, job_id):
        """Take over what only the server can know: when a job was enqueued, and its order."""
        if job_id in self.model.rows:
            row = scenes.stored(self.queue, job_id)
            self.model.rows[job_id].enqueued_at, self.model.rows[job_id].order = row.enqueued_at, row.order

    def _adopt_turns(self, known):
        """Take over the order in which lanes joined: a hand has none."""
        turns = [lane.decode() for lane in self.queue.client.zrange(self.queue.keys.lanes, 0, -1)]
        assert turns[: len(known)] == known
        assert sorted(turns) == sorted(self.model.ring.turns)
        self.model.ring.turns = {lane: self.model.ring.turns[lane] for lane in turns}
        alone = [lane.decode() for lane in self.queue.client.zrange(self.queue.keys.isolated, 0, -1)]
        assert sorted(alone) == sorted(self.model.alone)
        self.model.alone = alone

    def _note_deaths(self):
        self.deaths += [replace(row) for row in self._of(State.DEAD) if row not in self.deaths]

    def _of(self, state):
        return sorted((row for row in self.model.rows.values() if row.state is state), key=_id)

    def _some(self, data, state):
        return data.draw(st.lists(st.sampled_from(self._of(state)), unique_by=_id, min_size=1))

    def _lease(self, data):
        """Draw a lease: half of the time one that still holds, if there is any."""
        held = [lease for lease in self.leases if self.model.holds(lease)]
        return data.draw(st.sampled_from(held) | st.sampled_from(self.leases) if held else st.sampled_from(self.leases))

    def _running(self, data):
        return data.draw(st.lists(st.sampled_from(self.leases[-8:]), max_size=4)) if self.leases else []


def _id(row):
    return row.job_id


def test_whatever_happens_every_job_is_where_the_model_says(queue):
    faulthandler.cancel_dump_traceback_later()  # a deep run, or making a failure small, may take many minutes
    run_state_machine_as_test(lambda: Lives(queue), settings=PROFILE)
