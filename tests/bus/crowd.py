"""Lanes with so many jobs that enqueueing them would take minutes: copies of one job, made on the server."""

from echomq_django.bus.queue import Queue
from tests.bus import scenes

_COPY = """
local key, lane, model, from, to = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local row, order = redis.call('GET', key .. model), redis.call('ZSCORE', lane, model)
for n = from, to do
  local id = string.sub(model, 1, -9) .. string.format('%08d', n)
  redis.call('SET', key .. id, row)
  redis.call('ZADD', lane, order, id)
end
"""
_CHUNK = 10_000


def crowded(queue: Queue, number: int, *, lane: str = "") -> None:
    """Let `lane` have `number` jobs: one that was enqueued, and copies of its row under other ids."""
    (model,) = scenes.enqueued(queue, lane=lane)
    copy = queue.client.register_script(_COPY)
    keys = [queue.keys.base + "job:", queue.keys.lane(lane)]
    for first in range(1, number, _CHUNK):
        copy(keys, [model, first, min(number - 1, first + _CHUNK - 1)])
