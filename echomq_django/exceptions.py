"""Everything that echomq_django raises on purpose; each message names the culprit and the next step."""


class EchoMQError(Exception):
    """Base of all errors of this package. Never raised directly."""


class InvalidSetting(EchoMQError):
    """A setting of the queue is unknown or has an impossible value."""


class InvalidOption(EchoMQError, TypeError):
    """A keyword of `@task` or `using()` is unknown or has an impossible value."""


class InvalidName(EchoMQError, ValueError):
    """A prefix, queue, lane or holder name could collide with another key."""


class InvalidJobId(EchoMQError, ValueError):
    """A string is not a JOB id, so no key is built from it."""


class InvalidArguments(EchoMQError, TypeError):
    """An argument of a job would not come back equal from JSON; the message holds its path."""


class PayloadTooLarge(EchoMQError, ValueError):
    """The arguments of a job exceed the cap."""


class UnknownQueue(EchoMQError, ValueError):
    """A queue is not listed in `QUEUES` of the backend."""


class UnresolvableTask(EchoMQError, ImportError):
    """No task can be found under the path that a job names."""


class InvalidSchedule(EchoMQError, ValueError):
    """A row of django-q2 can't be fired as it is; the message says what to change."""


class AmbiguousTransaction(EchoMQError):
    """Several databases are in a transaction, so "after commit" has no single meaning."""


class BusError(EchoMQError):
    """Base of what the Redis side can answer instead of doing its work."""


class BusUnavailable(BusError):
    """The server can't be reached or can't serve at the moment; the same call may succeed later."""


class BusFull(BusError):
    """The server is at its memory limit and refused to take another job; nothing was written."""


class BusRefused(BusError):
    """The server refuses this user: wrong password, or a command that its ACL forbids."""


class UnsupportedServer(BusError):
    """The server is too old, or speaks another major version of the queue's protocol."""


class ScriptFailed(BusError):
    """The server rejected a script for a reason that repeating will not cure."""


class JobNotStored(BusError):
    """After COMMIT neither the server nor the database took a job; the message holds its id."""


class CacheUseRefused(EchoMQError):
    """The cache alias of the queue holds jobs and can't be used as a cache."""


class Retry(EchoMQError):
    """Raised by a handler: try the job again, `after` so many seconds or by its back-off. It counts as a failure."""

    def __init__(self, message: str = "the handler asks for another try", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class Discard(EchoMQError):
    """Raised by a handler: give the job up, trying again makes no sense. It is kept with the dead jobs."""


class SoftTimeLimit(EchoMQError):
    """Raised inside a handler that runs longer than its `soft_time_limit`."""

    def __init__(self, message: str = "the handler ran for longer than its soft_time_limit") -> None:
        super().__init__(message)


class TimeLimitExceeded(EchoMQError):
    """The error of a job whose process was ended, since it ran beyond its `time_limit`. No handler ever sees it."""

    def __init__(self, message: str = "the job ran for longer than its time_limit") -> None:
        super().__init__(message)


class JobCancelled(EchoMQError):
    """A job was cancelled before it could end well."""


class JobDied(EchoMQError):
    """A job was given up without an exception of its own, for instance after too many stalls."""


class EndlessDrain(EchoMQError):
    """A test ran thousands of jobs at once and there were still more."""


class EmbeddedServerError(EchoMQError):
    """A server for tests or the demo can't be found or started."""
