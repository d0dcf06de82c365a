"""The Celery app, where `celery -A worker worker` looks for it, and what happens when a worker starts and stops."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import Celery, signals, signature
from celery.app.amqp import AMQP
from celery.worker import control, state
from kombu.connection import Connection
from kombu.utils.json import loads

from config.celery import LANE_SLOTS, SLOTS, configuration
from config.problems import ConfigError, Problem
from config.settings import Settings, environment, redis_url, settings
from config.stages import CLOUD
from staffel_wire.url import shown_url
from worker import process
from worker.consumer import Turning
from worker.flower import flower_defaults
from worker.pool import lane_of, refuse_unfit, serve_both
from worker.prices import unpriced
from worker.runtime import EX_STUCK, Runtime
from worker.state.connection import trouble


def _url() -> str:
    """The URL of Redis, checked before Celery meets it; a bad one ends a `celery` command with a line.

    Whoever imports the tasks elsewhere gets a `ConfigError`: a web backend is not ours to end.
    """
    try:
        url = redis_url(environment())
        if url and not _is_redis(url):
            raise ConfigError(
                "the environment",
                [Problem("STAFFEL_REDIS_URL", f"{shown_url(url)} is no Redis URL; write redis://HOST:PORT/0")],
            )
    except ConfigError as error:
        if "celery" in Path(sys.argv[0]).parts[-2:]:  # bin/celery, or celery/__main__.py
            sys.exit(str(error))
        raise
    return url


def _is_redis(url: str) -> bool:
    parts = urlsplit(url)
    try:
        Connection(url)  # kombu's own reading of the query
        return parts.scheme in {"redis", "rediss"} and bool(parts.hostname) and parts.port != 0
    except (ValueError, TypeError):
        return False


flower_defaults(sys.argv, os.environ)


class DiscreetAMQP(AMQP):
    """Messages whose readable copy of their arguments, which Flower and events repeat, names none of them.

    Our own tasks set theirs; this is for what a worker sends on for others: a chord's body has answers as arguments.
    """

    def as_task_v2(self, task_id: str, name: str, args: Any = None, kwargs: Any = None, *rest: Any, **more: Any) -> Any:  # noqa: ANN401
        if more.get("argsrepr") is None:
            more["argsrepr"] = f"<{len(args or ())} arguments>"
        if more.get("kwargsrepr") is None:
            more["kwargsrepr"] = "{" + ", ".join(sorted(kwargs or {})) + "}"
        return super().as_task_v2(task_id, name, args, kwargs, *rest, **more)


class App(Celery):
    amqp_cls = DiscreetAMQP


app = App("staffel")
app.config_from_object(configuration(_url()))
app.steps["consumer"].add(Turning)
# The first two log the addresses they call, the third at DEBUG the whole message of a foreign producer.
for _chatty in ("httpx", "httpcore", "celery.pool"):
    logging.getLogger(_chatty).setLevel(logging.WARNING)


@signals.worker_init.connect
def _start(sender: Any, **_: Any) -> None:  # noqa: ANN401 - the worker controller
    """Refuse what cannot work with one line; give the lane its width; start the loop and the engine."""
    try:
        found = settings()
    except ConfigError as error:
        sys.exit(str(error))
    lane = lane_of(sender.app.amqp.queues.consume_from, (stage.lane for stage in found.stages.values()))
    refuse_unfit(sender.pool_cls, lane)
    serve_both(sender.app.amqp.queues, lane)
    if without := unpriced(found.stages, found.chains):
        sys.exit("\n".join(map(str, without)))
    _refuse_without_redis(found)
    app.conf.broker_transport_options = _broker_options(found)
    if lane == CLOUD:
        if sender.concurrency == SLOTS:
            sender.concurrency = found.general.cloud_slots
    else:
        sender.concurrency = LANE_SLOTS
        sender.options["autoscale"] = None
    if sender.hostname.startswith("celery@"):  # two lanes on one machine would share Celery's default name
        sender.hostname = f"{lane}@{sender.hostname.partition('@')[2]}"
    try:
        runtime = Runtime(found, lane, sender.hostname, _send, _event_of(sender.hostname), end=_end)
        process.set_runtime(runtime).start()
        atexit.register(runtime.stop)  # a worker that is told twice to end sends no worker_shutdown
    except Exception as error:  # noqa: BLE001 - Celery would log what a signal raises, and go on without a runtime
        sys.exit(f"the worker cannot start: {type(error).__name__} while speaking to Redis; see that it takes writes")


def _send(text: str, lane: str | None) -> None:
    """Put the message of a job, a signature as JSON, onto its own queue or the one that is named."""
    found = signature(loads(text), app=app)
    found.apply_async(**({"queue": lane} if lane else {}))


def _event_of(hostname: str) -> Callable[[Mapping[str, Any]], None]:
    """An alarm as the Celery event `stage-alarm`."""

    def tell(fields: Mapping[str, Any]) -> None:
        with app.events.default_dispatcher(hostname=hostname) as dispatcher:
            dispatcher.send("stage-alarm", **fields)

    return tell


def _refuse_without_redis(found: Settings) -> None:
    if not found.redis_url:
        sys.exit("no Redis: set STAFFEL_REDIS_URL, or start everything here with `staffel up`")
    if (wrong := trouble(found.redis_url)) is not None:
        print(wrong, file=sys.stderr)
        sys.exit(6)


def _end() -> None:
    """What a signal says to Celery's main loop, with an exit code that lets a supervisor start the next one."""
    state.should_stop = EX_STUCK


def _broker_options(found: Settings) -> Mapping[str, Any]:
    """The file's visibility timeout; what is too old is looked for often enough for it to mean something."""
    timeout = found.general.visibility_timeout
    options = {"visibility_timeout": timeout, "unacked_restore_interval": min(10, timeout / 3)}
    return {**app.conf.broker_transport_options, **options}


@signals.worker_shutting_down.connect
def _drain(how: str, **_: Any) -> None:  # noqa: ANN401
    """In a signal handler. `Cold` is the second Ctrl-C, or a SIGQUIT."""
    runtime = process.runtime()
    runtime.drain(0 if how == "Cold" else runtime.settings.general.drain)


@signals.worker_shutdown.connect
def _stop(**_: Any) -> None:  # noqa: ANN401
    process.runtime().stop()


_stock_revoke = control.Panel.data["revoke"]


@control.control_command(name="revoke", variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
def _revoke(state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **options: Any) -> Any:  # noqa: ANN401, FBT001, FBT002
    """Revoke task by task id (or list of ids).

    Celery keeps a revoke in the memory of the workers that hear it, and threads forget one of a prefetched task;
    the job's record does not.
    """
    for job in task_id if isinstance(task_id, list | tuple | set) else [task_id]:
        process.runtime().cancel(str(job), running=bool(terminate))
    return _stock_revoke(state, task_id, terminate, signal, **options)
