"""The message of Celery's protocol 2 as kombu lays it into a Redis list, holding nothing but the job's id.

Sources: Celery's documentation of its message protocol, version 2, and kombu's virtual transport (5.7), whose
base64 body and delivery tag a consumer expects.
"""

from __future__ import annotations

import base64
import json
import uuid

TASK = "tasks.ask"

CLIENT, HOUSEKEEPING = "staffel", "staffel-housekeeping"
"""Who sends a message: a client waits at the job's record, and not at Celery's result."""


def envelope(job: str, queue: str, origin: str = CLIENT) -> str:
    """One message for the list that is named like the queue."""
    body = json.dumps([[job], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return json.dumps(
        {
            "body": base64.b64encode(body.encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                "lang": "py", "task": TASK, "id": job, "shadow": None, "eta": None, "expires": None, "group": None,
                "group_index": None, "retries": 0, "timelimit": [None, None], "root_id": job, "parent_id": None,
                "argsrepr": f"('{job}',)", "kwargsrepr": "{}", "origin": origin, "ignore_result": False,
                "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
            },
            "properties": {
                "correlation_id": job, "reply_to": "", "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": queue},
                "priority": 0, "body_encoding": "base64", "delivery_tag": str(uuid.uuid4()),
            },
        }
    )  # fmt: skip
