"""What a worker was asked to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The options of `emq_worker`. `queues` are (name, weight); seconds for `grace` and `beat`."""

    alias: str
    queues: tuple[tuple[str, int], ...]
    strict: bool = False
    processes: int = 1
    threads: int = 1
    burst: bool = False
    grace: float = 30.0
    max_jobs: int | None = None
    beat: float = 1.0
