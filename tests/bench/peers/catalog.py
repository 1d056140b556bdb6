"""The queues that are measured side by side, and in which settings."""

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Setting:
    """One way to start a worker: the command as its documentation has it, with `options` for the queue's own settings.

    `jobs` are drained: enough for some seconds.
    """

    name: str
    command: str
    jobs: int
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Peer:
    """One queue: its module in `queues`, what is installed for it, and what a reader of its figures has to know."""

    name: str
    module: str
    packages: tuple[str, ...]
    guarantee: str
    logging: str
    settings: tuple[Setting, ...]
    node: bool = False


OWN: Final = Peer(
    name="echomq-django",
    module="echomq",
    packages=(),
    guarantee="At least once: a job is leased and fenced until its result is stored.",
    logging="`django.tasks` at WARNING",
    settings=(
        Setting("one child", "python -m django emq_worker --settings tests.bench.settings --processes 1", 30_000),
        Setting("default (one per core)", "python -m django emq_worker --settings tests.bench.settings", 30_000),
    ),
)

PEERS: Final = (
    OWN,
    Peer(
        name="BullMQ",
        module="bullmq",
        packages=("bullmq", "ioredis"),
        guarantee="At least once: a running job holds a lock that is renewed and checked. Node, not Python.",
        logging="logs nothing",
        settings=(
            Setting("concurrency 50", "node tests/bench/peers/queues/bullmq.cjs", 20_000, {"concurrency": 50}),
            Setting("default (one at a time)", "node tests/bench/peers/queues/bullmq.cjs", 10_000),
        ),
        node=True,
    ),
    Peer(
        name="huey",
        module="huey",
        packages=("huey", "redis", "hiredis"),
        guarantee="At most once: a job is popped, and gone when its worker is killed.",
        logging="`--quiet`",
        settings=(Setting("default (one thread)", "huey_consumer tests.bench.peers.queues.huey.huey --quiet", 10_000),),
    ),
    Peer(
        name="django-q2",
        module="django_q2",
        packages=("django-q2", "django", "redis", "hiredis"),
        guarantee="At most once on Redis: a job is popped, and gone when the cluster is killed.",
        logging="`log_level` WARNING",
        settings=(
            Setting(
                "one worker, results off",
                "django-admin qcluster --settings tests.bench.peers.queues.django_q2_settings",
                10_000,
                {"workers": 1, "save_limit": -1},
            ),
            Setting(
                "default (one per core)",
                "django-admin qcluster --settings tests.bench.peers.queues.django_q2_settings",
                3_000,
            ),
        ),
    ),
    Peer(
        name="Dramatiq",
        module="dramatiq",
        packages=("dramatiq[redis]", "hiredis"),
        guarantee="At least once: acknowledged after the run, by the worker that holds it.",
        logging="its default, which has no line for a job",
        settings=(
            Setting("one process", "dramatiq tests.bench.peers.queues.dramatiq --processes 1", 8_000),
            Setting("default (one per core)", "dramatiq tests.bench.peers.queues.dramatiq", 8_000),
        ),
    ),
    Peer(
        name="Celery",
        module="celery",
        packages=("celery[redis]", "hiredis"),
        guarantee=(
            "At most once by default: acknowledged before the run. With `task_acks_late` at least once, after the "
            "visibility timeout of an hour."
        ),
        logging="`--loglevel WARNING`",
        settings=(
            Setting(
                "solo pool, acks_late",
                "celery --app tests.bench.peers.queues.celery worker --loglevel WARNING --pool solo",
                3_000,
                {"task_acks_late": True},
            ),
            Setting(
                "default (one per core)",
                "celery --app tests.bench.peers.queues.celery worker --loglevel WARNING",
                3_000,
            ),
        ),
    ),
    Peer(
        name="RQ",
        module="rq",
        packages=("rq", "hiredis"),
        guarantee="At most once by default: the job of a killed worker is moved to the failed ones and not run again.",
        logging="`--quiet`",
        settings=(
            Setting(
                "SimpleWorker",
                "rq worker --quiet --url $EMQ_BENCH_REDIS_URL --worker-class rq.SimpleWorker",
                1_000,
            ),
            Setting("default (fork per job)", "rq worker --quiet --url $EMQ_BENCH_REDIS_URL", 200),
        ),
    ),
)
