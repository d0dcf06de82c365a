"""A plain client that writes down all it hears, for the tests of the host."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.hosts import Host

QUESTION = "Why is the sky blue?"
PROTOCOLS = ("openai", "anthropic", "gemini", "ollama")
MARKS = {"openai": b"[DONE]", "anthropic": b'"message_stop"', "gemini": b'"finishReason"', "ollama": b'"done": true'}
"""What a stream's last mark has in it."""
_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
}


@dataclass
class Heard:
    protocol: str
    streamed: bool = False
    status: int = 0
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    body: str = ""
    objects: list[Any] = field(default_factory=list)
    done: bool = False
    """Whether openai's `[DONE]` came."""
    broken: type[Exception] | None = None
    """What httpx raised before the end of the body."""

    @property
    def text(self) -> str:
        return "".join(part.get("text") or part.get("content") or "" for part in self._parts() if "thought" not in part)

    @property
    def thinking(self) -> str:
        names = ("thinking", "reasoning_content")
        thoughts = [part["text"] for part in self._parts() if "thought" in part]
        return "".join(thoughts + [part.get(name) or "" for part in self._parts() for name in names])

    @property
    def finish(self) -> str | None:
        """The finish reason that counts, in the script's word: ollama's only beside `done`."""
        names = ("finish_reason", "finishReason", "stop_reason", "done_reason")
        places = [*self._choices(), *self.objects, *(item["delta"] for item in self.objects if item.get("delta"))]
        reasons = [place[name] for place in places for name in names if place.get(name)]
        return next((_FINISHES.get(reason, reason) for reason in reasons), None)

    @property
    def marked(self) -> bool:
        """Whether a stream's last mark came; gemini and ollama have none but the finish reason."""
        if self.protocol == "anthropic":
            return any(item.get("type") == "message_stop" for item in self.objects)
        return self.done if self.protocol == "openai" else self.finish is not None

    @property
    def whole(self) -> bool:
        """Whether this is an answer from its beginning to its end."""
        ended = self.finish is not None and (self.marked or not self.streamed)
        return self.status == 200 and self.broken is None and ended

    @property
    def error(self) -> Any:
        return next((item["error"] for item in self.objects if "error" in item), None)

    @property
    def usage(self) -> tuple[int, int] | None:
        """Input and output tokens, those of the reasoning included."""
        told: dict[str, int] = {}
        for item in self.objects:
            started = (item.get("message") or {}).get("usage") or {}
            told |= {**started, **(item.get("usage") or {}), **(item.get("usageMetadata") or {})}
            told |= {name: item[name] for name in ("prompt_eval_count", "eval_count") if name in item}
        names = [
            (("prompt_tokens",), ("completion_tokens",)),
            (("input_tokens",), ("output_tokens",)),
            (("promptTokenCount",), ("candidatesTokenCount", "thoughtsTokenCount")),
            (("prompt_eval_count",), ("eval_count",)),
        ]
        counts = [[sum(told.get(name, 0) for name in group) for group in pair] for pair in names if pair[0][0] in told]
        return (counts[0][0], counts[0][1]) if counts else None

    def _choices(self) -> list[Any]:
        return [part for item in self.objects for name in ("choices", "candidates") for part in item.get(name) or []]

    def _parts(self) -> list[Any]:
        """All that may hold text or reasoning."""
        parts = [choice.get("delta") or choice.get("message") or {} for choice in self._choices()]
        parts += [part for choice in self._choices() for part in (choice.get("content") or {}).get("parts", [])]
        for item in self.objects:
            blocks = item.get("content") if item.get("type") == "message" else []
            message = item.get("message") if "done" in item else {}
            parts += [message or {}, item.get("delta") or {}, *(blocks or [])]
        return parts


def stage(host: Host, protocol: str, script: str) -> str:
    return str(getattr(host, protocol)(script))


def endpoint_of(protocol: str, *, stream: bool) -> str:
    """What stands behind a base URL."""
    if protocol == "gemini":
        return f"/models/m:{'streamGenerateContent?alt=sse' if stream else 'generateContent'}"
    return {"openai": "/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}[protocol]


def question(protocol: str, *, stream: bool, text: str = QUESTION) -> dict[str, Any]:
    if protocol == "gemini":
        contents = [{"role": "user", "parts": [{"text": text}]}]
        return {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": contents}
    messages = [{"role": "user", "content": text}]
    if protocol == "anthropic":
        blocks = [{"type": "text", "text": "Be brief."}]
        return {"model": "m", "max_tokens": 100, "system": blocks, "messages": messages, "stream": stream}
    messages = [{"role": "system", "content": "Be brief."}, *messages]
    return {"model": "m", "messages": messages, "stream": stream, "stream_options": {"include_usage": True}}


def hear(url: str, protocol: str, *, stream: bool, text: str = QUESTION, timeout: float = 10.0) -> Heard:
    """Ask and listen until the end, the break, or a silence of `timeout` seconds."""
    return hear_at(url + endpoint_of(protocol, stream=stream), protocol, stream=stream, text=text, timeout=timeout)


def hear_at(
    endpoint: str,
    protocol: str,
    *,
    stream: bool,
    text: str = QUESTION,
    timeout: float = 10.0,
    headers: Mapping[str, str] | None = None,
) -> Heard:
    """The same, at a URL that is whole."""
    heard = Heard(protocol, stream)
    body = question(protocol, stream=stream, text=text)
    try:
        # Without the certificates, whose loading would cost more than all the rest.
        with httpx.stream("POST", endpoint, json=body, timeout=timeout, verify=False, headers=headers) as response:
            heard.status, heard.headers = response.status_code, response.headers
            for line in response.iter_lines():
                heard.body += f"{line}\n"
                _take(heard, line.removeprefix("data: "))
    except (httpx.TransportError, httpx.DecodingError) as error:
        heard.broken = type(error)
    return heard


def _take(heard: Heard, line: str) -> None:
    if line == "[DONE]":
        heard.done = True
    try:
        value = json.loads(line)
    except ValueError:
        return
    values = value if isinstance(value, list) else [value]
    heard.objects += [value for value in values if isinstance(value, dict)]


def request_of(url: str, protocol: str, *, stream: bool = True, headers: str = "") -> bytes:
    """One request as it goes over the wire."""
    body = json.dumps(question(protocol, stream=stream))
    place = (url + endpoint_of(protocol, stream=stream)).removeprefix(origin_of(url))
    return f"POST {place} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def send(url: str, protocol: str, *, stream: bool = True, headers: str = "") -> socket.socket:
    """Open a socket of its own and send one request."""
    parts = urlsplit(url)
    endpoint = socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10)
    endpoint.sendall(request_of(url, protocol, stream=stream, headers=headers))
    return endpoint


def read_until(endpoint: socket.socket, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        if not (some := endpoint.recv(65536)):
            break
        received += some
    return received


def read_until_silence(endpoint: socket.socket, seconds: float) -> bytes:
    """All that comes until nothing comes for so long. Raises EOFError if the other side closes instead."""
    endpoint.settimeout(seconds)
    received = b""
    try:
        while some := endpoint.recv(65536):
            received += some
    except TimeoutError:
        return received
    raise EOFError
