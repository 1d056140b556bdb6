"""A program that enqueues, forks eight children that enqueue too, and prints the ids of all jobs."""

import json
import multiprocessing

import django
from django.db import connection


def enqueue(count: int) -> list[str]:
    """Enqueue jobs one by one, beside work with the database, and return their ids."""
    from tests.chaos import ledger, tasks

    job_ids = []
    for _ in range(count):
        ledger.add_order()
        job_ids.append(tasks.work.enqueue().id)
    return job_ids


def main() -> None:
    """Use all connections before and after forking."""
    django.setup()
    job_ids = enqueue(5)
    connection.close()  # forked connections of a database are Django's known limit, not this queue's
    with multiprocessing.get_context("fork").Pool(8) as pool:
        together = pool.map_async(enqueue, [25] * 8, chunksize=1)
        job_ids += enqueue(25)
        for part in together.get(60):
            job_ids += part
    print(json.dumps(job_ids + enqueue(5)))


if __name__ == "__main__":
    main()
