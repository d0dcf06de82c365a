"""A plain client that writes down all it hears, for the tests of the host."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.hosts import Host

QUESTION = "Why is the sky blue?"
ENDPOINTS = {"openai": "/chat/completions", "ollama": "/api/chat"}


@dataclass
class Heard:
    status: int = 0
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    body: str = ""
    objects: list[Any] = field(default_factory=list)
    marked: bool = False
    """Whether openai's `[DONE]` came."""
    broken: type[Exception] | None = None
    """What httpx raised before the end of the body."""

    @property
    def text(self) -> str:
        return "".join(message.get("content") or "" for message in self._messages())

    @property
    def thinking(self) -> str:
        names = ("thinking", "reasoning_content")
        return "".join(message.get(name) or "" for message in self._messages() for name in names)

    @property
    def finish(self) -> str | None:
        """The finish reason that counts: ollama's only beside `done`."""
        reasons = [choice["finish_reason"] for choice in self._choices()]
        reasons += [item["done_reason"] for item in self.objects if item.get("done")]
        return next((reason for reason in reasons if reason), None)

    @property
    def error(self) -> Any:
        return next((item["error"] for item in self.objects if "error" in item), None)

    @property
    def usage(self) -> tuple[int, int] | None:
        """Input and output tokens."""
        for item in self.objects:
            if usage := item.get("usage"):
                return usage["prompt_tokens"], usage["completion_tokens"]
            if item.get("done"):
                return item.get("prompt_eval_count", 0), item.get("eval_count", 0)
        return None

    def _choices(self) -> list[Any]:
        return [choice for item in self.objects for choice in item.get("choices", [])]

    def _messages(self) -> list[Any]:
        parts = [choice.get("delta") or choice.get("message") or {} for choice in self._choices()]
        return parts + [item["message"] for item in self.objects if "message" in item]


def stage(host: Host, protocol: str, script: str) -> str:
    return host.openai(script) if protocol == "openai" else host.ollama(script)


def question(*, stream: bool, text: str = QUESTION) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    return {"model": "m", "messages": messages, "stream": stream, "stream_options": {"include_usage": True}}


def hear(url: str, *, stream: bool, text: str = QUESTION, timeout: float = 10.0) -> Heard:
    """Ask and listen until the end, the break, or a silence of `timeout` seconds."""
    heard = Heard()
    endpoint = ENDPOINTS["openai" if url.endswith("/v1") else "ollama"]
    body = question(stream=stream, text=text)
    try:
        # Without the certificates, whose loading would cost more than all the rest.
        with httpx.stream("POST", url + endpoint, json=body, timeout=timeout, verify=False) as response:
            heard.status, heard.headers = response.status_code, response.headers
            for line in response.iter_lines():
                heard.body += f"{line}\n"
                _take(heard, line.removeprefix("data: "))
    except httpx.TransportError as error:
        heard.broken = type(error)
    return heard


def _take(heard: Heard, line: str) -> None:
    if line == "[DONE]":
        heard.marked = True
    try:
        value = json.loads(line)
    except ValueError:
        return
    if isinstance(value, dict):
        heard.objects.append(value)


def request_of(url: str, protocol: str, *, stream: bool = True, headers: str = "") -> bytes:
    """One request as it goes over the wire."""
    body = json.dumps(question(stream=stream))
    path = urlsplit(url + ENDPOINTS[protocol]).path
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


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
