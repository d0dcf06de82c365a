"""The worker's side of the broker: what Celery 5.7 does not survive by itself, and what keeps held messages fresh.

Private API of Celery and kombu stands here and in `pool.py` only; the pins in pyproject.toml are for them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from celery import bootsteps
from celery.worker import state
from celery.worker.consumer.consumer import Consumer

_log = logging.getLogger(__name__)


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

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        channel = getattr(self.connection, "_default_channel", None)
        if channel is not None:
            channel.do_restore = False  # the tasks still run here: nobody else may get them
        for request in list(state.requests.values()):
            if not request.acknowledged:
                tag = request.message.delivery_tag
                request._on_ack = partial(self._acknowledge_late, tag)  # noqa: SLF001
                request._on_reject = partial(self._reject_late, tag)  # noqa: SLF001
        super().on_connection_error_after_connected(exc)

    def _acknowledge_late(self, tag: str, *_: Any) -> None:  # noqa: ANN401 - Celery passes its logger and errors
        self.call_soon_ack(self._by_tag, tag, None)

    def _reject_late(self, tag: str, _log: Any, _errors: Any, requeue: bool = False) -> None:  # noqa: ANN401, FBT001, FBT002
        self.call_soon_ack(self._by_tag, tag, requeue)

    def _by_tag(self, tag: str, requeue: bool | None) -> None:  # noqa: FBT001
        try:
            qos = self.connection.default_channel.qos
            if requeue:
                qos.restore_by_tag(tag, leftmost=True)
            else:
                qos._remove_from_indices(tag).execute()  # noqa: SLF001
        except Exception:  # noqa: BLE001 - whatever it is, the message comes again and finds its job done
            _log.warning("could not acknowledge a message after the connection was lost; it will come again")

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


class UnackedHeartbeat(bootsteps.StartStopStep):
    """Refreshes the messages that this worker holds, so that the visibility timeout can be short.

    Redis redelivers what was not acknowledged within it, counted from the delivery (celery#5935).
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Consumer, **options: Any) -> None:  # noqa: ANN401 - bootsteps pass what they get
        self._timer: Any = None
        super().__init__(consumer, **options)

    def start(self, consumer: Consumer) -> None:
        timeout = consumer.app.conf.broker_transport_options.get("visibility_timeout", 3600)
        self._timer = consumer.timer.call_repeatedly(max(1.0, timeout / 3), self._beat, (consumer,))

    def stop(self, consumer: Consumer) -> None:  # noqa: ARG002 - the bootstep's signature
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self, consumer: Consumer) -> None:
        # `requests` is keyed by task id, so a second delivery of one id hides the first: hence the union.
        held = set(state.requests.values()) | set(state.reserved_requests) | set(state.active_requests)
        tags = {request.message.delivery_tag for request in held if not request.acknowledged}
        if not tags or not consumer.connection:
            return
        channel = consumer.connection.default_channel
        with channel.conn_or_acquire() as client:
            client.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
