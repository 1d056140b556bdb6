"""The bond of a child process to its parent."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Return the `preexec_fn` that lets a child get `number` when the *thread* that starts it ends, even by SIGKILL.

    Only Linux can do that; elsewhere a killed parent leaves its child running. No watchdog process: the kernel's own
    signal can be neither killed nor forgotten. A wrapper program would be unreadable for the account that a server
    started by root is given. The child calls one function of libc only.
    """
    parent = os.getpid()

    def bind() -> None:
        if _prctl is not None:
            _prctl(_PR_SET_PDEATHSIG, int(number))
            if os.getppid() != parent:
                os._exit(1)

    return bind
