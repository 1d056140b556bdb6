"""What one queue has to tell another: the next job of a chain, or that a group is over."""

import logging

from echomq_django.bus import groups
from echomq_django.bus.queue import Queue
from echomq_django.connection import Bus
from echomq_django.exceptions import UnknownQueue

logger = logging.getLogger("echomq_django.worker")


def run_errands(bus: Bus, queue: Queue) -> int:
    """Run the errands of `queue` and return how many; what is for a queue that nobody lists stays and is said."""
    done = 0
    for errand in groups.errands(queue):
        try:
            done += groups.run_errand(queue, errand, bus.queue(errand.queue))
        except UnknownQueue as error:
            logger.error("queue %s: a job waits for a queue that is not there: %s", queue.name, error)
    return done
