"""The message that the client puts onto a lane's list is one that Celery itself would have sent."""

from __future__ import annotations

import base64
import json

from celery.app.base import Celery
from kombu.transport.virtual import Message

from staffel_wire.message import envelope


def test_the_message_has_the_headers_that_celery_gives_its_own() -> None:
    """A new version of Celery that wants another one breaks this test, not a worker."""
    with Celery("t", set_as_current=False) as app:
        own = app.amqp.as_task_v2("j", "tasks.ask", ("j",), {})
    ours = json.loads(envelope("j", "cloud"))
    missing = set(own.headers) - set(ours["headers"]) - {"timelimit"}
    assert missing == set()
    for name in ("lang", "task", "id", "root_id", "parent_id", "group", "retries", "eta", "expires", "argsrepr"):
        assert ours["headers"][name] == own.headers[name], name
    assert json.loads(base64.b64decode(ours["body"])) == json.loads(json.dumps(own.body))
    assert ours["properties"]["correlation_id"] == own.properties["correlation_id"]


def test_the_message_is_read_by_the_transport() -> None:
    """With its body, its content type and the lane it goes to."""
    message = Message(json.loads(envelope("j", "ollama")), channel=_Channel())
    assert message.payload == [["j"], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    assert (message.content_type, message.delivery_info["routing_key"]) == ("application/json", "ollama")


def test_each_message_has_a_delivery_tag_of_its_own() -> None:
    """Unacknowledged messages are kept under it: two with the same one would be one."""
    tags = {json.loads(envelope("j", "cloud"))["properties"]["delivery_tag"] for _ in range(50)}
    assert len(tags) == 50


def test_the_message_holds_nothing_but_the_jobs_id() -> None:
    """What stands in it stands in Flower and in everybody's `redis-cli`."""
    sent = json.loads(envelope("j", "cloud"))
    assert json.loads(base64.b64decode(sent["body"]))[:2] == [["j"], {}]
    assert (sent["headers"]["argsrepr"], sent["headers"]["kwargsrepr"]) == ("('j',)", "{}")


class _Channel:
    """All that a message asks of its channel: how bodies are coded."""

    @staticmethod
    def decode_body(body: str, encoding: str) -> bytes:
        assert encoding == "base64"
        return base64.b64decode(body)
