from dataclasses import replace

import pytest

from echomq_django.bus import jobs
from echomq_django.bus.dead import requeue
from echomq_django.bus.jobs import Verdict
from echomq_django.bus.row import State
from tests.bus.scenes import FAILURE, W1, active, dead, death, revival, server_ms, stored
from tests.bus.view import changes


@pytest.mark.parametrize("failures", [0, 1])
def test_a_job_that_is_given_up_waits_in_dead_with_all_that_a_requeue_needs(queue, failures):
    (row,) = active(queue, lane="a", priority=9)
    before = server_ms(queue)
    with changes(queue) as changed:
        assert jobs.die(queue, W1, [death(row, failures)]) == [Verdict.ACCEPTED]
    (died_at,) = changed["dead"].values()
    assert before <= died_at <= server_ms(queue)
    assert changed == {
        "active": None,
        f"hand:{W1}": None,
        "dead": {row.job_id: died_at},
        "events": [("died", row.job_id, "failed")],
        f"job:{row.job_id}": replace(
            row, state=State.DEAD, started=False, failures=failures, deaths=1, failure=FAILURE
        ),
    }


def test_saying_it_again_is_one_death(queue):
    (row,) = active(queue)
    jobs.die(queue, W1, [death(row)])
    with changes(queue) as changed:
        assert jobs.die(queue, W1, [death(row)]) == [Verdict.ACCEPTED]
    assert changed == {}


def test_the_same_job_twice_in_one_call_dies_once(queue):
    (row,) = active(queue)
    assert jobs.die(queue, W1, [death(row), death(row)]) == [Verdict.ACCEPTED] * 2
    assert (stored(queue, row.job_id).deaths, stored(queue, row.job_id).failures) == (1, 1)


def test_a_death_is_named_by_the_token_that_died(queue):
    (row,) = dead(queue)
    deaths = {str(row.token)}
    for number in range(2, 5):
        assert requeue(queue, revival(row))
        (row,) = jobs.claim(queue, W1, bytes([number] * 8), 1)
        jobs.die(queue, W1, [death(row)])
        row = stored(queue, row.job_id)
        deaths.add(str(row.token))
        assert row.deaths == number
    assert len(deaths) == 4
