"""What Ollama refuses is refused with the same status and words."""

from __future__ import annotations

import json

import pytest

from tests.staffel.local_model.served import MODEL, Served

PICTURE = [{"role": "user", "content": "What is this?", "images": ["aGVsbG8="]}]
TOO_LONG = [{"role": "user", "content": "word " * 5000}]


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"model": ""}, 400, "model is required"),
        ({"model": "llama3"}, 404, "model 'llama3' not found"),
        ({"model": "smollm2"}, 404, "model 'smollm2' not found"),
        ({"model": "llama3", "options": {"num_ctx": "x"}}, 404, "model 'llama3' not found"),
        ({"model": "smollm2:1.7b"}, 404, "model 'smollm2:1.7b' not found"),
        ({"think": True}, 400, f'"{MODEL}" does not support thinking'),
        ({"think": "high"}, 400, f'"{MODEL}" does not support thinking'),
        ({"think": "hard"}, 400, "invalid think value: 'hard'"),
        ({"messages": PICTURE}, 400, f"{MODEL} does not support vision"),
        ({"tools": [{"type": "function"}]}, 400, f"{MODEL} does not support tools"),
        ({"logprobs": True}, 400, f"{MODEL} does not support logprobs"),
        ({"top_logprobs": 21}, 400, "top_logprobs must be between 0 and 20"),
        ({"options": {"use_mmap": "yes"}}, 500, 'option "use_mmap" must be of type boolean'),
        ({"keep_alive": True}, 400, "Unsupported type: 'bool'"),
        ({"keep_alive": "-1"}, 400, 'time: missing unit in duration "-1"'),
        ({"format": "yaml"}, 500, "invalid format"),
        ({"format": {"type": "nonsense"}}, 400, "unrecognized type nonsense"),
        ({"options": {"temperature": "0.2"}}, 500, 'option "temperature" must be of type float32'),
        ({"options": {"num_ctx": "4096"}}, 500, 'option "num_ctx" must be of type integer'),
        ({"options": {"num_predict": 1.5}}, 500, 'option "num_predict" must be of type integer'),
        ({"options": {"stop": [1]}}, 500, 'option "stop" must be of an array of strings'),
        ({"options": []}, 400, "options"),
        ({"messages": "Hello"}, 400, "messages"),
        ({"messages": [{"role": "user", "content": 7}]}, 400, "messages.0.content"),
        ({"stream": "no"}, 400, "stream"),
    ],
)
def test_a_request_that_cannot_be_served_is_told_why(
    served: Served, fields: dict[str, object], status: int, error: str
) -> None:
    """In one string under `error`, which is all that Ollama's clients read."""
    reply = served.chat(**fields)
    assert (reply.status, error in reply.error) == (status, True), reply


@pytest.mark.parametrize(
    ("body", "error"),
    [(b"", "missing request body"), (b"{", "JSON"), (b"[]", "object"), (b'{"model": "\\ud800"}', "JSON")],
    ids=["nothing", "half", "a list", "a lone surrogate"],
)
def test_a_body_that_is_no_request_is_a_400(served: Served, body: bytes, error: str) -> None:
    """Whatever comes in, it gets an answer and not a broken connection."""
    reply = served.ask("POST", "/api/chat", body)
    assert (reply.status, error in reply.error) == (400, True), reply


@pytest.mark.parametrize("stream", [True, False])
def test_a_prompt_that_does_not_fit_is_refused_as_llama_cpp_refuses_it(served: Served, *, stream: bool) -> None:
    """The error is JSON inside the string, with both sizes, also when a stream was asked for: it has not begun."""
    reply = served.chat(messages=TOO_LONG, stream=stream, truncate=False)
    inner = json.loads(reply.error)["error"]
    assert (reply.status, inner["type"], inner["n_ctx"]) == (400, "exceed_context_size_error", 4096)
    assert inner["n_prompt_tokens"] > 5000


def test_a_prompt_that_fills_a_small_window_is_refused(served: Served) -> None:
    """The window is the request's own, to the token: llama.cpp itself would round it up."""
    reply = served.chat(options={"num_ctx": 8}, truncate=False)
    assert reply.status == 400
    assert "exceeds the available context size (8 tokens)" in reply.error


def test_without_shift_nothing_is_cut(served: Served) -> None:
    """Ollama has other words for this refusal, and no numbers."""
    reply = served.chat(options={"num_ctx": 8}, shift=False)
    assert (reply.status, "longer than the context length currently available" in reply.error) == (400, True)


def test_show_knows_no_other_model(served: Served) -> None:
    """As `/api/chat` does, also under the older field `name`."""
    assert served.ask("POST", "/api/show", b'{"model": "llama3"}').status == 404
    assert served.ask("POST", "/api/show", b'{"name": "smollm2:135m"}').status == 200


def test_paths_and_methods_that_are_not_there_are_plain_text(served: Served) -> None:
    """Ollama answers these without JSON, which is how a wrong base URL can be told from a missing model."""
    assert served.ask("GET", "/v1/api/chat").text == "404 page not found"
    assert served.ask("GET", "/api/chat").status == 405


def test_a_liveness_probe_needs_no_model(served: Served) -> None:
    """HEAD and GET of the root, as Ollama's clients send them, and the other two that Ollama answers."""
    assert [served.ask("HEAD", path).status for path in ("/", "/api/version", "/api/tags")] == [200] * 3
    assert served.ask("HEAD", "/api/ps").status == 405
    assert served.ask("GET", "/").text == "Ollama is running"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example:80", 403),
        ("Host", "[::1]:11435", 200),
        ("Host", "localhost", 200),
        ("Host", "[", 403),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://localhost:3000", 200),
    ],
)
def test_a_web_page_cannot_use_the_model(served: Served, header: str, value: str, status: int) -> None:
    """A browser names the page's host in Origin, and a rebound name in Host; neither can be forged from a page."""
    assert served.ask("GET", "/api/version", headers={header: value}).status == status
