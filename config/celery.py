"""Celery's configuration as values.

Sources are Celery's and kombu's documentation (5.7) and the faults that measurements showed; each surprising
line says which.
"""

from __future__ import annotations

from typing import Any

from kombu.entity import Exchange, Queue

from config.stages import CLOUD

VISIBILITY_TIMEOUT_S = 120
"""How long a message may stay unacknowledged; the worker refreshes those it holds, so calls may take longer."""

UNACKED, UNACKED_INDEX = "staffel:unacked", "staffel:unacked_index"
"""kombu's hash of the messages that consumers hold, and their times."""

SLOTS = 200
"""Threads of a cloud worker: they only wait, the calls run on one event loop."""

LANE_SLOTS = 2
"""Threads of a worker whose lane runs one request at a time: beside the one that runs, the next is made ready."""

NOT_CONFIGURED = "redis://127.0.0.1:6379/0"
"""Where Celery would look by itself; whoever starts a worker or submits is told before it comes to that."""


def configuration(redis_url: str) -> dict[str, Any]:
    """Everything that Celery is told."""
    url = redis_url or NOT_CONFIGURED
    return {"include": ["tasks"], **_broker(url), **_results(url), **_tasks(), **_worker()}


def _broker(url: str) -> dict[str, Any]:
    socket = {"socket_timeout": 5, "socket_connect_timeout": 3, "socket_keepalive": True, "health_check_interval": 25}
    return {
        "broker_url": url,
        # Other Celery apps on this Redis must not feel our short timeout: it would redeliver their tasks.
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "unacked_key": UNACKED,
            "unacked_index_key": UNACKED_INDEX,
            "unacked_mutex_key": "staffel:unacked_mutex",
            # Who dies while it looks for old messages locks all others out for this (s); kombu's own is 300.
            "unacked_mutex_expire": 10,
            **socket,
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # Celery's 100 would end a worker's consumption after some 46 minutes
    }


def _results(url: str) -> dict[str, Any]:
    return {
        "result_backend": url,
        # Without this each thread has a backend and a pool of its own (celery#6819).
        "result_backend_thread_safe": True,
        "result_backend_always_retry": True,
        "result_backend_max_retries": 10,
        "result_backend_transport_options": {
            "retry_policy": {"max_retries": 10, "interval_start": 0, "interval_step": 0.5, "interval_max": 2}
        },
        "redis_socket_timeout": 10,
        "redis_socket_connect_timeout": 3,
        "redis_socket_keepalive": True,
        "redis_backend_health_check_interval": 30,
        "result_expires": 86_400,
    }


def _tasks() -> dict[str, Any]:
    return {
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_acks_late": True,
        "task_track_started": True,
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        "task_default_queue": CLOUD,
        # Only the wide lane: without -Q a worker must not take a lane that runs one at a time.
        "task_queues": [Queue(CLOUD, Exchange(CLOUD), routing_key=CLOUD)],
    }


def _worker() -> dict[str, Any]:
    return {
        "worker_pool": "threads",
        "worker_concurrency": SLOTS,
        "worker_prefetch_multiplier": 1,
        "worker_consumer": "worker.consumer:SafeConsumer",
        "worker_send_task_events": True,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }
