"""From options to running processes: what is checked before, and what each forked process does."""

import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import inf

from django.db import connections
from redis import Redis

from echomq_django.bus.line import Line
from echomq_django.bus.queue import Queue, open_queue
from echomq_django.connection import Bus, check_server, get_bus
from echomq_django.exceptions import BusUnavailable
from echomq_django.floor import dead_letters, outbox
from echomq_django.worker.backoff import Reconnection
from echomq_django.worker.board import Board
from echomq_django.worker.child import Child
from echomq_django.worker.clerk import settle
from echomq_django.worker.config import WorkerConfig
from echomq_django.worker.errands import run_errands
from echomq_django.worker.executor import Executor
from echomq_django.worker.hands import start_thread
from echomq_django.worker.keeper import Duty, Keeper, repeated
from echomq_django.worker.processes import Forks, Process, Serve
from echomq_django.worker.supervisor import Supervisor
from echomq_django.worker.threads import Threads
from echomq_django.worker.watch import Watch

logger = logging.getLogger("echomq_django.worker")

_FASTEST_S, _SLOWEST_S = 0.3, 5.0
_OFTEN_S, _RARELY_S = 5.0, 30.0  # how soon a keeper looks by itself: for parked jobs, for what its supervisor tells


def run_worker(config: WorkerConfig, pause: Callable[[float], None], duties: Sequence[Duty] = ()) -> int:
    """Run a worker until it is told to stop; returns its exit code. Its keeper has `duties` beside its own.

    While the server is away it waits, with one log line, calling `pause(seconds)` between attempts. Raises `BusRefused`
    and `UnsupportedServer` for a server that can't be used.
    """
    bus = get_bus(config.alias)
    # A part of a lease that is short enough to do nothing for, be it to rest or to wait for an answer.
    rest = min(_SLOWEST_S, min(bus.settings.for_queue(name).lease for name, _ in config.queues) / 6)
    queues = _queues(bus, config, bus.client(socket_timeout=max(_FASTEST_S, rest)))
    _wait_for_server(bus, queues, pause)
    connections.close_all()  # a forked connection would be shared
    place = Forks() if config.processes else Threads()
    turns = count()
    supervisor = Supervisor(
        config,
        queues,
        rest=rest,
        serve_child=lambda alone, call: _child(config, alone, call, next(turns), place),
        serve_keeper=_keeper(config, duties),
        serve_clerk=partial(_clerk, config),
        place=place,
        watch=_watch(bus, config) if config.processes else None,
    )
    supervisor.listen()
    return place.run(supervisor.run)


def _queues(bus: Bus, config: WorkerConfig, client: Redis) -> list[Queue]:
    line = Line(client.connection_pool)
    return [Queue(client, bus.settings.prefix, name, line) for name, _ in config.queues]


def _wait_for_server(bus: Bus, queues: list[Queue], pause: Callable[[float], None]) -> None:
    reconnection = Reconnection()
    while True:
        try:
            version = check_server(queues[0].client)
            for queue in queues:
                open_queue(queue, round(bus.settings.for_queue(queue.name).lease * 1000))
        except BusUnavailable as error:
            if not reconnection.waiting:
                logger.error("waiting for the server at %s: %s", bus.address(), error)
            pause(reconnection.failed())
        else:
            logger.info("connected to %s at %s", version, bus.address())
            return


def _watch(bus: Bus, config: WorkerConfig) -> Watch:
    limits = [(name, bus.settings.for_queue(name).time_limit) for name, _ in config.queues]
    return Watch([(name, inf if limit is None else limit) for name, limit in limits], config.grace)


def _child(config: WorkerConfig, alone: bool, call: Callable[[], None], turn: int, place: Forks | Threads) -> Serve:
    def serve(holder: str, board: Board, control: int) -> int:
        queues = _own_queues(config)
        start = place.lend_main if isinstance(place, Threads) and config.threads == 1 and not alone else start_thread
        child = Child(config, queues, holder, board, control, call, alone=alone, turn=turn, start=start)
        if isinstance(place, Forks):
            signal.signal(signal.SIGTERM, lambda *_: child.stop())
        return child.run()

    return serve


def _clerk(config: WorkerConfig, dead: Process) -> Serve:
    def serve(holder: str, board: Board, control: int) -> int:
        settle(Executor(config.alias, holder), _own_queues(config), dead.holder, dead.overdue)
        return 0

    return serve


def _own_queues(config: WorkerConfig) -> list[Queue]:
    bus = get_bus(config.alias)
    return _queues(bus, config, bus.client())


def _keeper(config: WorkerConfig, duties: Sequence[Duty]) -> Serve:
    def serve(holder: str, board: Board, control: int) -> int:
        bus = get_bus(config.alias)
        mirrors = [lambda queue=queue: len(dead_letters.mirror(queue, config.alias)) for queue in bus.queues()]
        errands = [lambda queue=queue: run_errands(bus, queue) for queue in bus.queues()]
        told = [repeated(move, _RARELY_S) for move in (*mirrors, *errands)]
        return Keeper(config.alias, [*duties, repeated(lambda: outbox.relay(bus), _OFTEN_S), *told], control).run()

    return serve
