"""JOB ids: 128 bits that sort by the time of their minting and remember their queue.

`JOB` + 26 characters of base32hex: 48 bits of milliseconds, 16 of a counter, 20 of a hash of the queue, 44 of chance.
"""

import os
import re
import threading
import time
from base64 import b32hexdecode
from functools import lru_cache
from hashlib import blake2b

from echomq_django.exceptions import InvalidJobId

_JOB_ID = re.compile(r"JOB[0-9A-V]{26}", re.ASCII)
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_QUEUE_BITS, _CHANCE_BITS, _COUNTER_BITS = 20, 44, 16

_lock = threading.Lock()
_last = 0  # milliseconds and counter of the youngest id, as one number


def _renew_lock() -> None:
    # A fork while another thread mints would leave the lock held for ever in the child.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def mint(queue: str) -> str:
    """Return a new id for a job of `queue`; ids of one process grow, ids of forks differ."""
    global _last
    now = time.time_ns() // 1_000_000 << _COUNTER_BITS
    with _lock:
        _last = stamp = max(now, _last + 1)
    # Asked of the system each time: copies of a process, forks or restored snapshots, must not draw the same.
    chance = int.from_bytes(os.urandom(6)) >> (48 - _CHANCE_BITS)
    return _encode((stamp << _QUEUE_BITS | queue_bits(queue)) << _CHANCE_BITS | chance)


def derive(queue: str, *parts: str) -> str:
    """Return the one id that belongs to `parts`, so that enqueueing twice makes one job."""
    digest = blake2b("\0".join(parts).encode(), digest_size=16).digest()
    number = int.from_bytes(digest)
    mask = ((1 << _QUEUE_BITS) - 1) << _CHANCE_BITS
    return _encode(number & ~mask | queue_bits(queue) << _CHANCE_BITS)


def check(job_id: str) -> str:
    """Return `job_id`, or raise `InvalidJobId` if no key may be built from it."""
    if not (isinstance(job_id, str) and _JOB_ID.fullmatch(job_id)):
        raise InvalidJobId(f"{job_id!r} is not a JOB id (JOB followed by 26 characters 0-9 A-V)")
    return job_id


def queue_bits_of(job_id: str) -> int:
    """Return the 20 bits of the queue's hash that `job_id` carries."""
    number = int.from_bytes(b32hexdecode(check(job_id)[3:] + "======"))
    return number >> _CHANCE_BITS & (1 << _QUEUE_BITS) - 1


@lru_cache(maxsize=1024)
def queue_bits(queue: str) -> int:
    """Return the 20 bits of the hash of a queue's name that its ids carry."""
    return int.from_bytes(blake2b(queue.encode(), digest_size=4).digest()) >> (32 - _QUEUE_BITS)


def _encode(number: int) -> str:
    number <<= 2  # 26 characters hold 130 bits
    return "JOB" + "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
