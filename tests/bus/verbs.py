"""Every verb of the bus once: how to get ready for it, how to say it, and what it answers."""

from collections.abc import Callable
from typing import Any

from echomq_django.bus import groups, jobs, limits
from echomq_django.bus.dead import forget, requeue, unmirrored
from echomq_django.bus.jobs import Cancelled, Entry, Verdict
from echomq_django.bus.queue import Queue, count, open_queue
from echomq_django.bus.recovery import abandon, recover
from echomq_django.bus.schedule import fire, hasten, promote
from echomq_django.bus.wakeups import pass_on
from tests.bus.scenes import (
    SOON,
    W1,
    a_group,
    active,
    completion,
    dead,
    death,
    enqueued,
    expire,
    make_due,
    new_job,
    nonce,
    release,
    retry,
    revival,
    suspects,
    tick,
    waiting_for,
)

Act = Callable[[], Any]
Arrange = Callable[[Queue], tuple[Act, Any]]


def _enqueue(queue: Queue) -> tuple[Act, Any]:
    batch = [new_job(queue), new_job(queue, lane="a"), new_job(queue, delay_ms=SOON)]
    return lambda: jobs.enqueue(queue, batch), [Entry.ADDED] * 3


def _claim(queue: Queue) -> tuple[Act, Any]:
    fresh = enqueued(queue, 2)
    return lambda: [row.job_id for row in jobs.claim(queue, W1, nonce(), 5)], fresh


def _claim_alone(queue: Queue) -> tuple[Act, Any]:
    (row,) = suspects(queue)
    return lambda: getattr(jobs.claim_alone(queue, W1, nonce()), "job_id", None), row.job_id


def _extend(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue, starting=0)
    tick(queue)
    return lambda: jobs.extend(queue, W1, [(row.job_id, row.token.fence)]), {row.job_id: row.token}


def _complete(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: jobs.complete(queue, W1, [completion(row)]), [Verdict.ACCEPTED]


def _retry(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: jobs.retry(queue, W1, [retry(row)]), [Verdict.ACCEPTED]


def _release(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: jobs.release(queue, W1, [release(row)]), [Verdict.ACCEPTED]


def _die(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: jobs.die(queue, W1, [death(row)]), [Verdict.ACCEPTED]


def _discard(queue: Queue) -> tuple[Act, Any]:
    (job_id,) = enqueued(queue)
    return lambda: jobs.discard(queue, job_id), Verdict.ACCEPTED


def _cancel(queue: Queue) -> tuple[Act, Any]:
    (job_id,) = enqueued(queue)
    return lambda: jobs.cancel(queue, job_id), Cancelled.NOW


def _progress(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: jobs.progress(queue, row.job_id, row.token, done=(1, 2), line="half"), True


def _leave(queue: Queue) -> tuple[Act, Any]:
    group = a_group(queue, 1)
    waiting_for(queue, group)
    return lambda: groups.leave(queue, group, new_job(queue).job_id), True


def _release_group(queue: Queue) -> tuple[Act, Any]:
    job_id = waiting_for(queue, a_group(queue, 1), far=True)
    return lambda: groups.release(queue, job_id), True


def _set(queue: Queue) -> tuple[Act, Any]:
    return lambda: limits.set(queue, lane="a", concurrency=1, rate="1/s"), None


def _pause(queue: Queue) -> tuple[Act, Any]:
    enqueued(queue, lane="a")
    return lambda: limits.pause(queue, lane="a", by="me"), None


def _resume(queue: Queue) -> tuple[Act, Any]:
    enqueued(queue, lane="a")
    limits.pause(queue, lane="a")
    return lambda: limits.resume(queue, lane="a"), True


def _fire(queue: Queue) -> tuple[Act, Any]:
    job = new_job(queue)
    return lambda: fire(queue, "nightly", "2026-01-01T00:00", job), True


def _hasten(queue: Queue) -> tuple[Act, Any]:
    enqueued(queue, 2, delay_ms=SOON)
    return lambda: hasten(queue, 1000), 2


def _unmirrored(queue: Queue) -> tuple[Act, Any]:
    rows = dead(queue)
    return lambda: [one.row for one in unmirrored(queue)], rows


def _forget(queue: Queue) -> tuple[Act, Any]:
    (row,) = dead(queue)
    return lambda: forget(queue, [(row.job_id, str(row.token))]), [True]


def _requeue(queue: Queue) -> tuple[Act, Any]:
    (row,) = dead(queue)
    return lambda: requeue(queue, revival(row)), True


def _recover(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    expire(queue, row)
    tick(queue)
    return lambda: recover(queue).stalled, [row.job_id]


def _abandon(queue: Queue) -> tuple[Act, Any]:
    (row,) = active(queue)
    return lambda: abandon(queue, W1, [(row.job_id, row.token.fence)]).stalled, [row.job_id]


def _promote(queue: Queue) -> tuple[Act, Any]:
    make_due(queue, *enqueued(queue, 2, delay_ms=SOON))
    return lambda: promote(queue).count, 2


def _count(queue: Queue) -> tuple[Act, Any]:
    enqueued(queue, 2)
    return lambda: count(queue).pending, 2


def _open(queue: Queue) -> tuple[Act, Any]:
    return lambda: open_queue(queue, 30_000), None


def _pass_on(queue: Queue) -> tuple[Act, Any]:
    enqueued(queue)
    queue.client.delete(queue.keys.wake)
    return lambda: pass_on(queue), None


VERBS: dict[str, Arrange] = {
    "jobs/enqueue": _enqueue,
    "jobs/claim": _claim,
    "jobs/claim_alone": _claim_alone,
    "jobs/extend": _extend,
    "jobs/complete": _complete,
    "jobs/retry": _retry,
    "jobs/release": _release,
    "jobs/die": _die,
    "jobs/discard": _discard,
    "jobs/cancel": _cancel,
    "jobs/progress": _progress,
    "groups/leave": _leave,
    "groups/release": _release_group,
    "limits/set": _set,
    "limits/pause": _pause,
    "limits/resume": _resume,
    "dead/unmirrored": _unmirrored,
    "dead/forget": _forget,
    "dead/requeue": _requeue,
    "recovery/recover": _recover,
    "recovery/abandon": _abandon,
    "schedule/promote": _promote,
    "schedule/fire": _fire,
    "schedule/hasten": _hasten,
    "queue/count": _count,
    "queue/open": _open,
    "wakeups/pass_on": _pass_on,
}
