"""One model in memory, run by llama.cpp."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from staffel.local_model.cores import core_limit
from staffel.local_model.errors import GenerationFailed, ModelBroken, ModelMissing, RequestRefused
from staffel.local_model.openmp import load_openmp

# Prompt tokens that llama.cpp evaluates at a stretch. It looks for a cancel only between two stretches: 256 is
# about one second on a slow core, and no slower than its default of 2048 (measured).
_STRETCH = 256
_OK = 200
_NO_CLOCK = aiohttp.ClientTimeout(total=None)  # whoever asked has the clocks; aiohttp's default ends a call after 300 s


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a loaded model. `window` is the context in use, `trained_window` the longest it learned."""

    window: int
    trained_window: int
    parameters: int
    quantization: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text, mostly one token."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an answer. `reason` is "stop" or "length"; the times are nanoseconds."""

    reason: str
    prompt_tokens: int
    prompt_ns: int
    output_tokens: int
    output_ns: int


class Model:
    """llama.cpp with one model and one slot; the constructor blocks while it loads (half a second for 100 MB).

    llama.cpp brings its own HTTP server. We ask it over loopback, as Ollama asks its runner: it computes in threads of
    its own, and closing the connection is the cancel. The port is any free one, and a key made here locks it.
    Raises ModelMissing, ModelBroken.
    """

    def __init__(self, file: Path, num_ctx: int) -> None:
        key = secrets.token_urlsafe()
        self._server = _start(file, num_ctx, key)
        self._url = str(self._server.listening_address)
        self._headers = {"Authorization": f"Bearer {key}"}
        with file.open("rb") as weights:
            self._digest = hashlib.file_digest(weights, "sha256").hexdigest()

    def close(self) -> None:
        """Stop computing and give the memory back; blocks for one stretch at most."""
        self._server = None

    async def facts(self) -> Facts:
        async with self._asked("GET", "/v1/models") as response:
            meta = json.loads(await response.read())["data"][0]["meta"]
        return Facts(
            window=meta["n_ctx"],
            trained_window=meta["n_ctx_train"],
            parameters=meta["n_params"],
            quantization=meta["ftype"],
            size=meta["size"],
            digest=self._digest,
        )

    async def count(self, messages: Sequence[Mapping[str, str]]) -> int:
        """The tokens of the whole prompt, with what the chat template adds; evaluates nothing.

        Raises RequestRefused.
        """
        path = "/v1/chat/completions/input_tokens"
        async with self._asked("POST", path, {"messages": list(messages)}) as response:
            return int(json.loads(await response.read())["input_tokens"])

    async def generate(self, question: Mapping[str, object]) -> AsyncGenerator[Piece | Finish, None]:
        """Pieces, then one Finish. Closing the generator stops llama.cpp within a token, or a stretch of the prompt.

        `question` is a chat request in llama.cpp's words. Raises RequestRefused before the first piece and
        GenerationFailed at any time.
        """
        # A reused prefix would make the same seed give another answer, so no prompt is remembered.
        body = {**question, "stream": True, "cache_prompt": False}
        async with self._asked("POST", "/v1/chat/completions", body) as response:
            async for event in _events(response.content):
                choice = event["choices"][0]
                if text := choice["delta"].get("content"):
                    yield Piece(text)
                if reason := choice["finish_reason"]:
                    yield _finish(reason, event["timings"])
                    return
        raise GenerationFailed("llama.cpp ended the answer without saying why")

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A reply with status 200; any other is passed on whole as the error, as Ollama does with its runner's."""
        # llama.cpp closes a kept connection whenever it likes; a new one costs less than a millisecond.
        connector = aiohttp.TCPConnector(force_close=True)
        session = aiohttp.ClientSession(self._url, headers=self._headers, connector=connector, timeout=_NO_CLOCK)
        try:
            async with session, session.request(method, path, json=body) as response:
                if response.status != _OK:
                    raise RequestRefused(response.status, await response.text())
                yield response
        except aiohttp.ClientError as error:
            raise GenerationFailed(f"llama.cpp does not answer ({error})") from error


def _start(file: Path, num_ctx: int, key: str) -> Any:  # noqa: ANN401 - a C++ object without types
    # llama.cpp's threads wait for each other many times a token. Spinning there, as OpenMP does if not told otherwise,
    # they take the core from the one they wait for: 2 threads beside 1 busy process were 4 times slower (measured).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    load_openmp()
    try:
        llama = importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ModelMissing(f"llama.cpp is not usable ({error})") from error
    params = llama.CommonParams()
    params.model.path = str(file)
    params.n_ctx = num_ctx
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = _STRETCH
    params.cache_ram_mib = 0  # by default it keeps up to 8 GB of earlier prompts
    params.api_keys = [key]
    params.verbosity = -1
    if limit := core_limit():
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = limit
    try:
        return llama.Server(params)
    except RuntimeError as error:
        raise ModelBroken(file) from error


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[Any]:
    async for line in stream:
        data = line.removeprefix(b"data: ").strip()
        if not data or data == b"[DONE]":
            continue
        event = json.loads(data)
        if "error" in event:
            raise GenerationFailed(json.dumps(event))
        yield event


def _finish(reason: str, timings: Mapping[str, float]) -> Finish:
    return Finish(
        reason="length" if reason == "length" else "stop",
        prompt_tokens=int(timings["cache_n"] + timings["prompt_n"]),
        prompt_ns=int(timings["prompt_ms"] * 1e6),
        output_tokens=int(timings["predicted_n"]),
        output_ns=int(timings["predicted_ms"] * 1e6),
    )
