"""The views of a shop that enqueues in the transaction of its request."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from echomq_django.connection import get_bus
from tests.chaos import ledger, seen, tasks


def order(request: HttpRequest) -> HttpResponse:
    """Create an order, enqueue its job, and give the worker the time to run a job that was pushed after it."""
    number = ledger.add_order()
    job_id = tasks.look_for_order.enqueue(number).id
    later = tasks.work.using(database=None).enqueue().id
    seen.done(get_bus().queue("default"), later)
    return JsonResponse({"job": job_id, "later": later})


def cancelled_order(request: HttpRequest) -> HttpResponse:
    """Do the same, and roll everything back."""
    response = order(request)
    transaction.set_rollback(True)
    return response


def order_with_a_regretted_part(request: HttpRequest) -> HttpResponse:
    """Create an order; what is enqueued for a second one is rolled back to a savepoint."""
    kept = tasks.look_for_order.enqueue(ledger.add_order()).id
    with transaction.atomic():
        regretted = tasks.look_for_order.enqueue(ledger.add_order()).id
        transaction.set_rollback(True)
    also_kept = tasks.look_for_order.enqueue(ledger.add_order()).id
    return JsonResponse({"kept": [kept, also_kept], "regretted": regretted})


@transaction.non_atomic_requests
def order_without_transaction(request: HttpRequest) -> HttpResponse:
    """Create an order and enqueue its job, each for itself."""
    return JsonResponse({"job": tasks.look_for_order.enqueue(ledger.add_order()).id})


urlpatterns = [
    path(f"{view.__name__}/", view)
    for view in (order, cancelled_order, order_with_a_regretted_part, order_without_transaction)
]
