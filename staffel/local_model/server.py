"""Start and stop: the port, the model, the signals."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from staffel.local_model.api import application
from staffel.local_model.errors import LocalModelError, PortTaken
from staffel.local_model.facts import Facts
from staffel.local_model.guard import is_loopback
from staffel.local_model.loading import Loading
from staffel.local_model.residence import Residence
from staffel.local_model.weights import DEFAULT_NAME, model_file

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11435  # one above Ollama's own, so that both can run
DEFAULT_NUM_CTX = 4096  # tokens; Ollama's default on a machine without a GPU. SmolLM2-135M is trained for 8192.
_LAST_WORDS = 0.2  # seconds that an answer under way gets when the server stops


def serve(
    host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, *, name: str = DEFAULT_NAME, num_ctx: int = DEFAULT_NUM_CTX
) -> None:
    """Serve until SIGINT or SIGTERM, then return; prints one line when ready. Raises LocalModelError.

    Port 0 takes any free port; the line names it. For a process of its own: it takes the signals.
    """
    asyncio.run(_serve(host, port, name, num_ctx))


@asynccontextmanager
async def local_model(
    host: str = DEFAULT_HOST, port: int = 0, *, name: str = DEFAULT_NAME, num_ctx: int = DEFAULT_NUM_CTX
) -> AsyncIterator[str]:
    """A server on this event loop for as long as the block runs; gives its URL. Raises LocalModelError.

    The model is loaded first, for five minutes as if asked for: a broken one is told at once. The port is taken before:
    whoever connects meanwhile waits for half a second, and a port in use is told at once too.
    """
    file = model_file()
    with _listening(host, port) as listener:
        facts = await asyncio.to_thread(Facts.of, file, name)
        residence = Residence(file)
        try:
            await residence.start(Loading(num_ctx=min(num_ctx, facts.trained_window)))
            app = application(residence, facts, num_ctx, guarded=is_loopback(host))
            # Without handler_cancellation a client's leaving would not be felt before the answer is written.
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_LAST_WORDS)
            await runner.setup()
            try:
                await web.SockSite(runner, listener).start()
                yield f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
            finally:
                await runner.cleanup()
        finally:
            await residence.close()


async def _serve(host: str, port: int, name: str, num_ctx: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with local_model(host, port, name=name, num_ctx=num_ctx) as url:
        if not stop.is_set():
            print(f"local model {name} ready on {url} (tiny and weak by design)", flush=True)
        await stop.wait()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port) from error
        raise LocalModelError(f"cannot listen on {host}:{port}: {error}") from error
    with listener:
        yield listener
