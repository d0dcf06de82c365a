"""Those who ask through Celery, in a process of their own: `python -m chaos.celery_caller` reads lines, writes lines.

In: {"job", "caller", "fields"}, out: {"job", "raised"}, where null says that the call returned.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery

from chaos.schedule import DELAY
from tasks import ask

_AT_ONCE = 8


def main() -> None:
    """Publish whatever stdin says until it ends; several at once, since one may have to wait for Redis."""
    stranger = Celery("stranger", broker=os.environ["STAFFEL_REDIS_URL"], set_as_current=False)
    stranger.conf.update(
        broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 3},
        task_publish_retry_policy={"max_retries": 1, "interval_start": 0, "interval_max": 0.2},
    )

    def ours(job: str, fields: dict[str, Any]) -> None:
        ask.apply_async((fields,), task_id=job)

    def foreign(job: str, fields: dict[str, Any]) -> None:
        stranger.send_task("tasks.ask", [fields], task_id=job, queue="cloud")

    writing = threading.Lock()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for line in sys.stdin:
            told = json.loads(line)
            pool.submit(_publish, ours if told["caller"] == DELAY else foreign, told, writing)


def _publish(publish: Callable[[str, dict[str, Any]], None], told: dict[str, Any], writing: threading.Lock) -> None:
    raised = None
    try:
        publish(told["job"], told["fields"])
    except Exception as error:  # noqa: BLE001 - whatever a caller may meet; it tries again
        raised = f"{type(error).__module__}.{type(error).__name__}"
    with writing:
        print(json.dumps({"job": told["job"], "raised": raised}), flush=True)


if __name__ == "__main__":
    main()
