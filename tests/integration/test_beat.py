"""One queue's turn of a supervisor's duties, and how long it may rest before the next."""

import pytest

from echomq_django.bus import jobs, limits
from echomq_django.bus.queue import Queue, count
from echomq_django.bus.recovery import Recovered
from echomq_django.exceptions import ScriptFailed
from echomq_django.worker.beat import Beat
from echomq_django.worker.board import boottime
from tests.bus.scenes import SOON, W1, active, completion, dead, enqueued, expire, make_due, nonce, suspects

BEAT, REST = 1.0, 60.0
IDLE = 0.0  # a worker that had nothing to do since it started


def report(queue: Queue, recovered: Recovered) -> None:
    """Hear what was recovered and do nothing."""


def turned(queue: Queue) -> Beat:
    """Return a beat that has just passed over `queue`."""
    beat = Beat(queue, BEAT, REST)
    assert beat.next_at(IDLE) <= boottime()
    beat.turn(report)
    return beat


def pause(beat: Beat, busy_at: float = IDLE) -> float:
    """Return the seconds until the next pass."""
    return beat.next_at(busy_at) - boottime()


def test_a_queue_in_which_nothing_happens_is_left_alone_for_a_long_time(queue: Queue) -> None:
    enqueued(queue, lane="a")
    assert pause(turned(queue)) == pytest.approx(REST, abs=0.5)


def test_while_anybody_has_a_lease_the_passes_are_a_beat_apart(queue: Queue) -> None:
    active(queue)
    assert pause(turned(queue)) == pytest.approx(BEAT, abs=0.5)


def test_while_a_suspect_waits_the_passes_are_a_beat_apart(queue: Queue) -> None:
    suspects(queue)
    assert pause(turned(queue)) == pytest.approx(BEAT, abs=0.5)


def test_a_worker_that_has_something_to_do_rests_no_longer(queue: Queue) -> None:
    beat = turned(queue)
    assert pause(beat, busy_at=boottime()) == pytest.approx(BEAT, abs=0.5)


def test_a_worker_rests_only_after_a_pass_over_what_its_last_job_left_behind(queue: Queue) -> None:
    beat = turned(queue)
    now = boottime()
    assert pause(beat, busy_at=now - BEAT / 2) == pytest.approx(BEAT, abs=0.5)
    assert pause(beat, busy_at=now - 2 * BEAT) == pytest.approx(REST, abs=0.5)


def test_what_waits_for_a_time_ends_the_rest_in_time(queue: Queue) -> None:
    enqueued(queue, delay_ms=10_000)
    assert pause(turned(queue)) == pytest.approx(10, abs=0.5)


def test_what_waits_for_a_rate_ends_the_rest_in_time(queue: Queue) -> None:
    limits.set(queue, lane="a", rate="2/m")
    enqueued(queue, 3, lane="a")
    rows = jobs.claim(queue, W1, nonce(), 3)
    assert jobs.claim(queue, W1, nonce(), 3) == []
    jobs.complete(queue, W1, [completion(row) for row in rows])
    assert pause(turned(queue)) == pytest.approx(30, abs=0.5)


def test_a_turn_takes_back_what_is_lost_and_moves_what_is_due(queue: Queue) -> None:
    lost = active(queue)
    expire(queue, *lost)
    make_due(queue, *enqueued(queue, 300, delay_ms=SOON))
    told: list[str] = []
    Beat(queue, BEAT, REST).turn(lambda _, recovered: told.extend(recovered.stalled))
    assert told == [lost[0].job_id]
    assert count(queue).pending == 301


def test_a_turn_finds_what_the_keeper_has_to_do(queue: Queue) -> None:
    queue.client.rpush(queue.keys.handoff, "an errand")
    dead(queue, 2)
    found = turned(queue).found
    assert (found.errands, found.deaths) == (1, 2)


def test_a_turn_that_fails_is_due_at_once_again(queue: Queue) -> None:
    queue.client.set(queue.keys.active, "of a wrong type")
    beat = Beat(queue, BEAT, REST)
    with pytest.raises(ScriptFailed):
        beat.turn(report)
    assert pause(beat) <= 0
    queue.client.delete(queue.keys.active)
    beat.turn(report)
    assert pause(beat) > 0
