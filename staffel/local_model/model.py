"""One model in memory, run by llama.cpp in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from staffel.local_model.errors import GenerationFailed, ModelBroken, ModelMissing, RequestRefused, RunnerGone
from staffel.local_model.loading import Loading
from staffel.local_model.runner import MISSING

Message = Mapping[str, str]
Prompt = Sequence[Message] | Sequence[int]
"""Messages, for which the model's chat template is used, or tokens as they are."""

_OK = 200
_NO_CLOCK = aiohttp.ClientTimeout(total=None)  # whoever asked has the clocks; aiohttp's default ends a call after 300 s
_LAST_WORDS = 1.0  # seconds in which a process that broke off an answer is found dead


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
    """llama.cpp with one model and one slot. `load` makes one; it takes half a second for 100 MB.

    llama.cpp brings its own HTTP server. We ask it over loopback, as Ollama asks its runner: it computes in a process
    of its own, and closing the connection is the cancel. The port is any free one, and a key made here locks it.
    """

    def __init__(self, process: asyncio.subprocess.Process, url: str, key: str) -> None:
        self._process = process
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self.size = _resident(process.pid)
        """Bytes of memory, as the system counts them just after the load; 0 where it does not tell."""

    @classmethod
    async def load(cls, file: Path, loading: Loading) -> Model:
        """Being cancelled ends the load at once, and nothing of it is left. Raises ModelMissing, ModelBroken."""
        key = secrets.token_urlsafe()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "staffel.local_model.runner"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it prints a grammar that it cannot parse, which is a caller's own text
        )
        try:
            said = await _said(process, {"file": str(file), "loading": loading.as_json(), "key": key})
        except BaseException:
            await _ended(process)
            raise
        if "url" in said:
            return cls(process, said["url"], key)
        await _ended(process)
        if said.get("failed") == MISSING:
            raise ModelMissing(f"llama.cpp is not usable ({said['why']})")
        raise ModelBroken(file)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def close(self) -> None:
        """Stop computing and give the memory back."""
        await _ended(self._process)

    async def tokens(self, text: str) -> list[int]:
        body = {"content": text, "add_special": True, "parse_special": True}
        return [int(token) for token in (await self._told("/tokenize", body))["tokens"]]

    async def text(self, tokens: Sequence[int]) -> str:
        return str((await self._told("/detokenize", {"tokens": list(tokens)}))["content"])

    async def rendered(self, messages: Sequence[Message], settings: Mapping[str, object]) -> str:
        """The whole prompt, with what the chat template adds.

        Raises RequestRefused, also for a schema that cannot be kept to: llama.cpp looks at it here, and not where it is
        given tokens.
        """
        body = {**settings, "messages": list(messages)}
        return str((await self._told("/apply-template", body))["prompt"])

    async def generate(self, prompt: Prompt, settings: Mapping[str, object]) -> AsyncGenerator[Piece | Finish, None]:
        """Pieces, then one Finish. Closing the generator stops llama.cpp within a token, or a stretch of the prompt.

        `settings` are llama.cpp's. Raises RequestRefused before the first piece and GenerationFailed at any time.
        """
        # A reused prefix would make the same seed give another answer, so no prompt is remembered.
        body: dict[str, object] = {**settings, "stream": True, "cache_prompt": False}
        of_tokens = all(isinstance(token, int) for token in prompt)
        path = "/completion" if of_tokens else "/v1/chat/completions"
        body |= _as_tokens(body, prompt) if of_tokens else {"messages": list(prompt)}
        async with self._asked(path, body) as response:
            async for event in _events(response.content):
                text, reason = _said_in(event)
                if text:
                    yield Piece(text)
                if reason:
                    yield _finish(reason, event["timings"])
                    return
        raise GenerationFailed("llama.cpp ended the answer without saying why")

    async def _told(self, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        async with self._asked(path, body) as response:
            told: Mapping[str, Any] = json.loads(await response.read())
        return told

    @asynccontextmanager
    async def _asked(self, path: str, body: Mapping[str, object]) -> AsyncIterator[aiohttp.ClientResponse]:
        """A reply with status 200; any other is passed on whole as the error, as Ollama does with its runner's."""
        # llama.cpp closes a kept connection whenever it likes; a new one costs less than a millisecond.
        connector = aiohttp.TCPConnector(force_close=True)
        session = aiohttp.ClientSession(self._url, headers=self._headers, connector=connector, timeout=_NO_CLOCK)
        try:
            async with session, session.post(path, json=body) as response:
                if response.status != _OK:
                    raise RequestRefused(response.status, await response.text())
                yield response
        except aiohttp.ClientError as error:
            if await self._died():
                raise RunnerGone from error
            raise GenerationFailed(f"llama.cpp does not answer ({error})") from error

    async def _died(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._process.wait()
        return not self.alive


async def _said(process: asyncio.subprocess.Process, wanted: Mapping[str, object]) -> dict[str, str]:
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(json.dumps(wanted).encode() + b"\n")
    line = await process.stdout.readline()
    said: dict[str, str] = json.loads(line) if line else {}
    return said


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _as_tokens(body: Mapping[str, object], prompt: Prompt) -> dict[str, object]:
    """Here llama.cpp has a word of its own for a schema, and for the limit."""
    wanted = body.get("response_format")
    schema = {"json_schema": _schema(wanted)} if isinstance(wanted, Mapping) else {}
    return {"prompt": list(prompt), "n_predict": body["max_tokens"], **schema}


def _schema(wanted: Mapping[str, Any]) -> object:
    return wanted["json_schema"]["schema"] if wanted["type"] == "json_schema" else {"type": "object"}


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[Any]:
    async for line in stream:
        data = line.removeprefix(b"data: ").strip()
        if not data or data == b"[DONE]":
            continue
        event = json.loads(data)
        if "error" in event:
            raise GenerationFailed(json.dumps(event))
        yield event


def _said_in(event: Mapping[str, Any]) -> tuple[str, str | None]:
    """Text and reason of the end, of a chat's event or of a completion's."""
    if "choices" in event:
        choice = event["choices"][0]
        return choice["delta"].get("content") or "", choice["finish_reason"]
    reason = {"limit": "length"}.get(event.get("stop_type", ""), "stop") if event.get("stop") else None
    return event["content"], reason


def _finish(reason: str, timings: Mapping[str, float]) -> Finish:
    return Finish(
        reason="length" if reason == "length" else "stop",
        prompt_tokens=int(timings["cache_n"] + timings["prompt_n"]),
        prompt_ns=int(timings["prompt_ms"] * 1e6),
        output_tokens=int(timings["predicted_n"]),
        output_ns=int(timings["predicted_ms"] * 1e6),
    )
