"""What a worker was asked to do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The options of `emq_worker`. `queues` are (name, weight); seconds for `grace` and `beat`,
    MiB for `max_memory`.

    With 0 `processes` all that processes do is done by threads of one.
    """

    alias: str
    queues: tuple[tuple[str, int], ...]
    strict: bool = False
    processes: int = 1
    threads: int = 1
    burst: bool = False
    grace: float = 30.0
    max_jobs: int | None = None
    max_memory: int | None = None
    beat: float = 1.0

    def __str__(self) -> str:
        if self.processes:
            return f"{self.processes} processes with {self.threads} threads"
        return (
            f"{self.threads} threads of this process, which can't isolate them: "
            "a handler that crashes or holds the interpreter takes the worker with it, and time_limit does not hold"
        )
