"""Which COMMIT a push has to wait for."""

from collections.abc import Callable
from dataclasses import dataclass

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from echomq_django.conf import did_you_mean
from echomq_django.exceptions import AmbiguousTransaction, InvalidOption
from echomq_django.tasks import UNSET, Unset


def after_commit(database: str | Unset | None, push: Callable[[bool], None]) -> None:
    """Call `push(True)` after the COMMIT of the one database in a transaction, or `push(False)` now if there is none.

    `database` is the task's option: the alias to wait for, or None to wait for none. Raises `AmbiguousTransaction` if
    several are in a transaction and the option is not given. A rolled-back savepoint takes its own pushes with it.
    """
    alias = None if database is None else _open_alias() if database is UNSET else _known(database)
    if alias is not None and _is_open(connections[alias]):
        transaction.on_commit(_Waiting(push), using=alias)
    else:
        push(False)


def commit_test_case() -> int:
    """Push what waits for the COMMIT of a test case, which never comes, and return how many pushes that were.

    Each is made once, whether by this or by `captureOnCommitCallbacks(execute=True)`. Raises Django's
    `TransactionManagementError` inside an `atomic()` of the test itself: that may still be rolled back.
    """
    pushed = 0
    for connection in filter(_is_open, connections.all(initialized_only=True)):
        if not _is_test_case(connection):
            raise transaction.TransactionManagementError(
                f"the database {connection.alias!r} is in a transaction: run the jobs after its atomic() block"
            )
        for _, waiting, *_ in list(connection.run_on_commit):
            if isinstance(waiting, _Waiting) and not waiting.done:
                waiting()
                pushed += 1
    return pushed


@dataclass(slots=True, eq=False)
class _Waiting:
    """A push that waits for a COMMIT and is done once, whoever says that it has come."""

    push: Callable[[bool], None]
    done: bool = False

    def __call__(self) -> None:
        if not self.done:
            self.done = True
            self.push(True)


def _open_alias() -> str | None:
    # Only connections that this thread has: asking for another one would open it.
    open_ = [one for one in connections.all(initialized_only=True) if _is_open(one)]
    if len(open_) > 1:
        # A test case holds every database in a transaction of its own, which never commits.
        open_ = [one for one in open_ if not _is_test_case(one)] or open_[:1]
    if len(open_) > 1:
        raise AmbiguousTransaction(
            f"the databases {', '.join(repr(one.alias) for one in open_)} are in a transaction: say whose COMMIT the"
            " job waits for with .using(database=...), or database=None to enqueue it at once"
        )
    return open_[0].alias if open_ else None


def _is_open(connection: BaseDatabaseWrapper) -> bool:
    # Without autocommit there is a transaction whose end nobody announces: Django's on_commit() refuses that.
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


def _is_test_case(connection: BaseDatabaseWrapper) -> bool:
    blocks = connection.atomic_blocks
    return bool(blocks and blocks[-1]._from_testcase)  # type: ignore[attr-defined]


def _known(alias: str) -> str:
    if alias not in connections:
        raise InvalidOption(f"database = {alias!r} is no alias of DATABASES{did_you_mean(alias, connections)}")
    return alias
