"""A web host that enqueues one job three seconds ahead of its own clock, and prints the id."""

from datetime import timedelta

import django


def main() -> None:
    django.setup()
    from django.utils import timezone

    from tests.chaos import tasks

    print(tasks.work.using(run_after=timezone.now() + timedelta(seconds=3)).enqueue().id)


if __name__ == "__main__":
    main()
