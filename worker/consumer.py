"""The worker's side of the broker: what Celery 5.7 does not survive by itself, and what a worker's end leaves behind.

Private API of Celery and kombu stands here, in `held.py` and in `pool.py` only; the pins in pyproject.toml are for it.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from celery import bootsteps
from celery.app.trace import build_tracer
from celery.worker import state
from celery.worker.consumer.consumer import Consumer

from staffel_wire import keys
from worker import process
from worker.held import Held, Holding, read_the_last
from worker.pool import Heard
from worker.watch import Consumption, Mode

_log = logging.getLogger(__name__)

_SLOW_S = 1.0
"""A step towards the broker that takes longer says that it is away: an ending worker does not wait for the others."""


class SafeConsumer(Consumer):
    """Survives the loss of the broker's connection while a late-acknowledged task runs.

    Celery 5.7.0 ends with an AttributeError there: it closes the connection's channel twice, and the finished task
    acknowledges on the closed one. Redis knows delivery tags across connections, so the new one can acknowledge.
    """

    class Blueprint(Consumer.Blueprint):
        # Without gossip: every worker would hear all events of all others, and it does not survive a reconnect.
        default_steps: ClassVar[list[str]] = [
            step for step in Consumer.Blueprint.default_steps if not step.endswith(":Gossip")
        ]

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Celery's own signature
        self.unacked_index = ""
        self.taken, self.turned_at = 0, time.monotonic()
        self._kept: list[Any] = []  # requests whose connection is gone
        self._qos: Held | None = None
        self._queues: dict[str, list[str]] = {}
        self._draining = self._broken = self._stands_by = False
        self._aside: list[str] = []  # the queues that are served once the lane is ours
        self._one_by_one = threading.Lock()
        super().__init__(*args, **options)

    # --- one connection after the other

    def connection_for_read(self, heartbeat: Any = None) -> Any:  # noqa: ANN401 - Celery's own signature
        connection = self.app.connection_for_read(heartbeat=heartbeat)
        connection.transport.Channel = Holding
        return self.ensure_connected(connection)

    def connect(self) -> Any:  # noqa: ANN401 - kombu's connection
        connection = super().connect()
        channel = connection.default_channel
        self._qos, self.unacked_index = channel.qos, channel.unacked_index_key
        with channel.conn_or_acquire() as client:
            seconds, micros = client.time()
        self.told_time(seconds + micros / 1e6)
        self._queues = {
            queue: [channel._q_for_pri(queue, step) for step in channel.priority_steps]  # noqa: SLF001
            for queue in self.app.amqp.queues.consume_from
        } or self._queues
        return connection

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        channel = getattr(self.connection, "_default_channel", None)
        if channel is not None:
            channel.do_restore = False  # the tasks still run here: nobody else may get them
        # What waits for its time is dropped by Celery, and comes again by itself.
        running = [request for request in list(state.requests.values()) if request not in state.scheduled_requests]
        self._kept = [request for request in {*self._kept, *running} if not request.acknowledged]
        for request in self._kept:
            tag = request.message.delivery_tag
            request._on_ack = partial(self._acknowledge_late, tag)  # noqa: SLF001
            request._on_reject = partial(self._reject_late, tag)  # noqa: SLF001
        super().on_connection_error_after_connected(exc)

    def _acknowledge_late(self, tag: str, *_: Any) -> None:  # noqa: ANN401 - Celery passes its logger and errors
        self.call_soon_ack(self._by_tag, tag, requeue=False)

    def _reject_late(self, tag: str, _log: Any, _errors: Any, requeue: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        self.call_soon_ack(self._by_tag, tag, requeue=requeue)

    def _by_tag(self, tag: str, *, requeue: bool) -> None:
        try:
            qos = self.connection.default_channel.qos
            if requeue:
                qos.restore_by_tag(tag)
            else:
                qos._remove_from_indices(tag).execute()  # noqa: SLF001
        except Exception:  # noqa: BLE001 - whatever it is, the message comes again and finds its job done
            _log.warning("could not acknowledge a message after the connection was lost; it will come again")

    # --- a lane that another worker serves

    def serve(self) -> None:
        self.call_soon(self._serve)

    def stand_by(self) -> None:
        self.call_soon(self.stand_by_now)

    def stand_by_now(self) -> None:
        if not self._stands_by:
            self._stands_by, self._aside = True, list(self.app.amqp.queues.consume_from)
            for queue in self._aside:
                self.app.amqp.queues.deselect(queue)
                self.task_consumer.cancel_by_queue(queue)
            _log.info("stands by: another worker serves %s, or none yet", " and ".join(self._aside))

    def _serve(self) -> None:
        """Queues that are selected are consumed by the next connection too, should this one break now."""
        if self._stands_by:
            self._stands_by, queues = False, self.app.amqp.queues
            for queue in self._aside:
                queues.select_add(queues[queue])
            for queue in self._aside if self.task_consumer is not None else ():
                super().add_task_queue(queue)

    # An operator who names the lane means both of its queues, as `-Q` does.

    def add_task_queue(self, queue: str, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Celery's own signatures
        if self._stands_by:
            self._aside += [name for name in keys.queues(queue) if name not in self._aside]
            return
        super().add_task_queue(queue, *args, **options)
        for other in keys.queues(queue)[1:]:
            super().add_task_queue(other)

    def cancel_task_queue(self, queue: str) -> None:
        for name in keys.queues(queue):
            self._aside = [other for other in self._aside if other != name]
            super().cancel_task_queue(name)

    # --- the end

    def stop(self) -> None:
        """Take nothing more; what was taken and not begun goes back at once, to the front of its queue."""
        self._draining = True
        runtime = process.runtime()
        runtime.drain(runtime.settings.general.drain)  # `celery control shutdown` sends no signal that says so
        super().stop()
        if self.connection is not None and self._qos is not None:
            # In a thread: a second signal waits for the pool's threads, in the middle of whatever this one holds.
            giving = threading.Thread(target=self._give_back, args=(self._qos,))
            giving.start()
            giving.join()

    def _give_back(self, qos: Held) -> None:
        with suppress(Exception):  # the broker is away
            read_the_last(qos.channel, self.app.amqp.queues.consume_from)
        self.call_soon_ack(self._give_back_unbegun, qos)

    def _give_back_unbegun(self, qos: Held) -> None:
        self.pool.executor.shutdown(wait=False, cancel_futures=True)
        begun = {r.message.delivery_tag for r in list(state.requests.values()) if r.time_start and not r.acknowledged}
        for tag in reversed([tag for tag in qos.held() if tag not in begun]):
            qos.reject(tag, requeue=True)

    def call_soon_ack(self, p: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - Celery's own signature
        """Where the main loop has ended, its thread waits for the pool: then at once, in the calling thread."""
        if not self._draining:
            return super().call_soon_ack(self._acknowledge, p, args, options)
        with self._one_by_one:
            if self._broken:
                return p
            began = time.monotonic()
            try:
                p(*args, **options)
            except Exception as error:  # noqa: BLE001 - it comes again, by the visibility timeout
                _log.warning("could not give back a message (%s); it will come again", type(error).__name__)
            self._broken = time.monotonic() - began > _SLOW_S
        return p

    def _acknowledge(self, p: Any, args: Any, options: Any) -> None:  # noqa: ANN401
        """It waited its turn in the main loop, and the connection that it meant may have been lost meanwhile."""
        try:
            p(*args, **options)
        except Exception:  # noqa: BLE001 - AttributeError on a closed channel, which would end the worker
            message = getattr(p, "__self__", None)
            if (tag := getattr(message, "delivery_tag", None)) is not None:
                self._by_tag(tag, requeue=bool(options.get("requeue")))

    # --- what others may ask, from another thread

    def look(self) -> Consumption:
        consumes = not self._queues or bool(self.app.amqp.queues.consume_from)
        mode = Mode.STANDS_BY if self._stands_by else Mode.CONSUMES if consumes else Mode.CANCELLED
        return Consumption(
            Mode.DRAINING if self._draining or process.runtime().is_closed else mode,
            self.turned_at, self.taken, self.pool.num_processes, len(state.reserved_requests),
        )  # fmt: skip

    def held(self) -> Sequence[str]:
        self._kept = [request for request in self._kept if not request.acknowledged]
        kept = [request.message.delivery_tag for request in self._kept]
        return [*kept, *(self._qos.held() if self._qos is not None else ())]

    def queues(self) -> Sequence[str]:
        """Without those that an operator has cancelled, unless that is all."""
        known, consumed = self._queues, self.app.amqp.queues.consume_from
        some = [lists for queue, lists in known.items() if queue in consumed]
        return [name for lists in some or known.values() for name in lists]

    def told_time(self, server_s: float) -> None:
        if self._qos is not None:
            self._qos.ahead = time.time() - server_s

    def wake(self) -> None:
        self.hub.call_soon(int)

    def update_strategies(self) -> None:
        super().update_strategies()
        for name, task in self.app.tasks.items():
            task.__trace__ = build_tracer(name, task, self.app.loader, self.hostname, app=self.app, Info=Heard)
        # Celery's own line for it is a traceback.
        warnings.filterwarnings("ignore", "Exception raised outside body", RuntimeWarning)

    def create_task_handler(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - Celery's own signature
        handle = super().create_task_handler(*args, **options)

        def taken(message: Any) -> Any:  # noqa: ANN401
            self.taken += 1
            return handle(message)

        return taken

    # What cannot be run is thrown away and told, as Celery does, but not quoted: it may be a prompt.

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ANN401, ARG002 - Celery's own signatures
        super().on_unknown_message(None, _Unquoted(message))

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002
        super().on_unknown_task(None, _Unquoted(message), exc)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002
        super().on_invalid_task(None, _Unquoted(message), exc)

    def on_decode_error(self, message: Any, exc: Exception) -> None:  # noqa: ANN401
        super().on_decode_error(_Unquoted(message), type(exc).__name__)


class _Unquoted:
    """A message whose content cannot be logged; everything else of it is its own."""

    body = b"not shown"

    def __init__(self, message: Any) -> None:  # noqa: ANN401
        self._message = message
        headers = message.headers if isinstance(message.headers, Mapping) else {}
        self.headers = {name: headers[name] for name in ("task", "id", "root_id", "origin") if name in headers}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._message, name)


class Turning(bootsteps.StartStopStep):
    """Says each second that the main loop turns, and lets the process's runtime look at the consumer."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: SafeConsumer, **options: Any) -> None:  # noqa: ANN401 - bootsteps pass what they get
        self._timer: Any = None
        super().__init__(consumer, **options)

    def start(self, consumer: SafeConsumer) -> None:
        self._timer = consumer.timer.call_repeatedly(1.0, self._turned, (consumer,))
        process.runtime().attend(consumer)

    def stop(self, consumer: SafeConsumer) -> None:  # noqa: ARG002 - the bootstep's signature
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turned(self, consumer: SafeConsumer) -> None:
        consumer.turned_at = time.monotonic()
