"""What a type checker says about a project that uses the package; mypy reads this file, nothing runs it."""

from datetime import timedelta
from typing import assert_type

from echomq_django import (
    Discard,
    JobContext,
    Retry,
    Task,
    enqueue_chain,
    enqueue_group,
    enqueue_many,
    schedule,
    step,
    task,
)
from echomq_django.testing import Drained, drain


@task
def bare(number: int, text: str = "") -> str:
    return text * number


@task(
    queue_name="emails", max_failures=5, backoff=(1, 2.5), retry_on=ValueError, lane=lambda user_id, **kw: f"{user_id}"
)
def send(user_id: int, *, order_id: int = 0) -> float:
    return user_id / order_id


@task(takes_context=True, max_stalled=None)
def with_context(context: JobContext, number: int) -> int:
    return context.fence + len(context.job_id) + context.attempt + number


@task
async def coroutine(number: int) -> bytes:
    return bytes(number)


@task(lease=60, soft_time_limit=5.5, time_limit=None)
async def patient(number: int) -> list[int]:
    return [number]


@task(takes_context=True)
async def patient_with_context(context: JobContext, number: int) -> int:
    return context.fence + number


@task(takes_context=True, unique="debounce", unique_key=lambda order_id: order_id, expires=60, redact=["order_id"])
def careful(context: JobContext, order_id: int) -> None:
    assert_type(context.cancelled, bool)
    context.progress(1, 3)
    context.log("begins")
    if context.cancelled:
        raise Discard("nobody wants it")
    raise Retry("busy", after=1.5)


def arguments_and_results_are_checked() -> None:
    assert_type(bare.enqueue(1, text="x").return_value, str)
    assert_type(send.enqueue(1, order_id=7).return_value, float)
    assert_type(with_context.enqueue(1).return_value, int)
    assert_type(coroutine.enqueue(1).return_value, bytes)
    assert_type(patient.enqueue(1).return_value, list[int])
    assert_type(patient_with_context.enqueue(1).return_value, int)
    assert_type(send.get_result("JOB").return_value, float)
    assert_type(send.enqueue(1).state, str)

    bare.enqueue("1")  # type: ignore[arg-type]
    bare.enqueue()  # type: ignore[call-arg]
    send.enqueue(1, 2)  # type: ignore[call-arg]
    send.enqueue(1, orderid=2)  # type: ignore[call-arg]
    with_context.enqueue()  # type: ignore[call-arg]
    coroutine.enqueue("1")  # type: ignore[arg-type]


def using_keeps_the_signature() -> None:
    changed = send.using(
        priority=5, queue_name="default", max_failures=2, backoff=[1, 2], soft_time_limit=None, database=None
    )
    assert_type(changed.enqueue(1).return_value, float)

    changed.enqueue("1")  # type: ignore[arg-type]
    send.using(max_failure=2)  # type: ignore[call-arg]
    send.using(max_failures="2")  # type: ignore[arg-type]


def unknown_and_wrong_options_are_errors() -> None:
    task(max_failure=5)  # type: ignore[call-overload]
    task(lease="30")  # type: ignore[call-overload]
    task(retry_on=5)  # type: ignore[call-overload]
    task(unique="never")  # type: ignore[call-overload]
    task(expires="60")  # type: ignore[call-overload]
    Retry("busy", 1.5)  # type: ignore[call-arg]


async def asynchronous_code_has_the_same_types() -> None:
    assert_type((await send.aenqueue(1)).return_value, float)
    assert_type((await send.aget_result("JOB")).failures, int)


def many_jobs_give_their_ids() -> None:
    assert_type(enqueue_many(send, [((1,), {"order_id": 7})]), list[str])
    enqueue_many(send, [1])  # type: ignore[list-item]


def jobs_that_belong_together_are_steps() -> None:
    assert_type(enqueue_chain(step(bare, 1), step(send, order_id=7)).id, str)
    group = enqueue_group([step(bare, number) for number in range(3)], then=step(send))
    assert_type(group.members, list[str])
    assert_type(group.then, str)

    enqueue_chain(bare)  # type: ignore[arg-type]
    enqueue_group([bare])  # type: ignore[list-item]


def tests_can_run_what_is_pending() -> None:
    assert_type(drain(advance=timedelta(hours=1), raises=False), Drained)
    assert_type(drain().succeeded, list[str])

    drain(advance=3600)  # type: ignore[arg-type]


def jobs_can_be_periodic() -> None:
    schedule(send, cron="0 6 * * *", name="daily", args=[1], kwargs={"order_id": 7}, timezone="Europe/Berlin")
    schedule(careful.using(priority=5), every=timedelta(minutes=5), name="often", args=(1,))
    schedule(bare, every=30, name="often")

    schedule(bare, every="30", name="often")  # type: ignore[arg-type]
    schedule(bare, every=30)  # type: ignore[call-arg]
    schedule(jobs_can_be_cancelled, every=30, name="often")  # type: ignore[arg-type]


def jobs_can_be_cancelled() -> None:
    assert_type(careful.enqueue(7).cancel(), bool)


def a_task_can_be_passed_around(any_task: Task[[int], float]) -> None:
    any_task.enqueue(1)


a_task_can_be_passed_around(patient)  # type: ignore[arg-type]
