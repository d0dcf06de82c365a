"""The messages that a worker takes, and from which queue first; and those that it has not acknowledged, as Redis keeps
them: by the server's clock, and where they go back to.

Private API of kombu 5.7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from queue import Empty
from typing import Any, cast

from kombu.transport import redis, virtual
from kombu.utils.json import dumps
from kombu.utils.scheduling import round_robin_cycle

from staffel_wire import keys

_GIVE_BACK = """
-- A message goes back to the front of its queues, if it is still held.
-- KEYS: what is held, its index, the lists. ARGV: the tag, the message.
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
for i = 3, #KEYS do redis.call('RPUSH', KEYS[i], ARGV[2]) end
return 1
"""
IN_A_ROW = 9
"""So many interactive jobs are taken one after the other where batch jobs wait too."""

_Local = cast("Any", virtual.QoS)
_dumps = cast("Any", dumps)


class Held(redis.QoS):
    """kombu's bookkeeping, with two differences.

    What is rejected with `requeue` goes to the front of its queue, where kombu takes it to the back: it was there
    before the others. And instants are the server's: kombu writes and compares those of each worker's own clock.
    """

    ahead = 0.0
    """How far (s) this machine's clock is ahead of the server's."""

    def held(self) -> list[str]:
        """The tags, oldest first; any thread may ask."""
        return [tag for tag in list(self._delivered) if tag not in self._dirty]

    def append(self, message: Any, delivery_tag: str) -> None:  # noqa: ANN401 - kombu's own signature
        delivery = message.delivery_info
        entry = _dumps([message._raw, delivery["exchange"], delivery["routing_key"]])  # noqa: SLF001
        with self.pipe_or_acquire() as pipe:
            pipe.zadd(self.unacked_index_key, {delivery_tag: time.time() - self.ahead})
            pipe.hset(self.unacked_key, delivery_tag, entry)
            pipe.execute()
        _Local.append(self, message, delivery_tag)

    @property
    def visibility_timeout(self) -> float:
        """What is taken from this machine's now to know which messages are too old."""
        return float(self.channel.visibility_timeout) + self.ahead

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002
        if requeue:
            self._give_back(delivery_tag)
        else:
            cast("Any", self)._remove_from_indices(delivery_tag).execute()  # noqa: SLF001
        self.ack_here(delivery_tag)

    def _give_back(self, tag: str) -> None:
        """One step, where kombu watches the whole of what all workers hold: it tries again when one moves."""
        message = self._delivered.get(tag)
        if message is None:
            self.channel.qos.restore_by_tag(tag)
            return
        channel, raw = self.channel, message._raw  # noqa: SLF001
        with suppress(KeyError):
            raw["headers"]["redelivered"] = True
            raw["properties"]["delivery_info"]["redelivered"] = True
        delivery = message.delivery_info
        lists = [
            channel._q_for_pri(queue, channel._get_message_priority(raw, reverse=False))  # noqa: SLF001
            for queue in channel._lookup(delivery["exchange"], delivery["routing_key"])  # noqa: SLF001
        ]
        with channel.conn_or_acquire() as client:
            client.eval(_GIVE_BACK, 2 + len(lists), self.unacked_key, self.unacked_index_key, *lists, tag, _dumps(raw))

    def ack_here(self, delivery_tag: str) -> None:
        """Forget it in this process."""
        _Local.ack(self, delivery_tag)


class QueueOrder(round_robin_cycle):
    """Which queues a worker's next BRPOP asks first: those of interactive jobs, but of ten jobs one is a batch job.

    kombu takes turns between queues, and would give every second place to a batch.
    """

    def __init__(self, it: Any = None) -> None:  # noqa: ANN401 - kombu's own signature
        self.items = [] if it is None else it
        self._in_a_row = 0

    def consume(self, n: int) -> list[str]:
        """The queues in the order in which they are asked."""
        return sorted(self.items[:n], key=keys.is_batch, reverse=self._in_a_row >= IN_A_ROW)

    def rotate(self, last_used: str) -> str:
        """A job was taken from this queue."""
        self._in_a_row = 0 if keys.is_batch(last_used) else self._in_a_row + 1
        return last_used


class Holding(redis.Channel):
    QoS = Held
    queue_order_strategy = f"{__name__}:{QueueOrder.__name__}"


def read_the_last(channel: Any, lanes: Iterable[str]) -> None:  # noqa: ANN401 - kombu's channel
    """Hear the reply of the BRPOP under way, within a second; what it brings goes back to its queue.

    Its message is in no queue and in no worker's books: it would wait until the process has ended.
    """
    transport = channel.connection
    if not channel._in_poll:  # noqa: SLF001
        return
    for lane in lanes:
        transport._callbacks.setdefault(lane, transport._reject_inbound_message)  # noqa: SLF001
    with suppress(Empty):
        channel._brpop_read()  # noqa: SLF001
