"""The one way in which these tests wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 30.0


def until(condition: Callable[[], T], *, within: float = PATIENCE) -> T:
    """Return the first true answer of `condition`; fails if there is none within so many seconds."""
    deadline = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {within} s in vain"
        time.sleep(0.02)
    return answer
