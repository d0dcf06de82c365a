"""Two clients against each host: the `ollama` package that people use, and Staffel's own adapter."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import ollama
import pytest

from config.stages import Stage
from tests.contract.targets import HELLO, SCHEMA, TOO_LONG, Target
from tests.worker.providers.asking import provider_of, stage_at
from worker.failover.clocks import Reply, read
from worker.failover.provider import Call, Kind
from worker.failover.request import Request


def test_the_package_streams(target: Target) -> None:
    with ollama.Client(target.url) as client:
        *pieces, end = client.chat(target.model, HELLO, stream=True, options={"num_predict": 4})
    assert "".join(piece.message.content or "" for piece in pieces)
    assert (end.done, end.done_reason, end.eval_count) == (True, "length", 4)


def test_the_package_generates(target: Target) -> None:
    with ollama.Client(target.url) as client:
        answer = client.generate(target.model, "Say hello.", options={"num_predict": 4})
    assert answer.response
    assert (answer.done, answer.eval_count) == (True, 4)


def test_the_package_loads_unloads_and_looks(target: Target) -> None:
    with ollama.Client(target.url) as client:
        assert client.chat(target.model, [], keep_alive="5m").done_reason == "load"
        assert target.model in {model.model for model in client.ps().models}
        assert client.generate(target.model, "", keep_alive=0).done_reason == "unload"
        assert target.model in {model.model for model in client.list().models}
        assert "completion" in (client.show(target.model).capabilities or [])


def test_the_package_raises_for_a_model_that_is_not_there(target: Target) -> None:
    with ollama.Client(target.url) as client, pytest.raises(ollama.ResponseError, match="not found") as caught:
        client.chat("no-such-model:1b", HELLO)
    assert caught.value.status_code == 404


def test_the_packages_async_client_leaves_and_comes_again(target: Target) -> None:
    async def run() -> bool:
        async with ollama.AsyncClient(target.url) as client:
            stream = await client.chat(target.model, HELLO, stream=True, options={"num_predict": 500})
            await anext(stream)
            await stream.aclose()
            return bool((await client.chat(target.model, HELLO, options={"num_predict": 1})).done)

    assert asyncio.run(run())


def asked(target: Target, *, tokens: int, to: str | None = None, model: str | None = None, **request: Any) -> Reply:
    """What Staffel's adapter makes of a call with a window of 512 tokens."""
    stage: Stage = replace(stage_at(to or target.url, "ollama", num_ctx=512), model=model or target.model)

    async def run() -> Reply:
        call = Call(stage, Request(**{"messages": HELLO, **request}), tokens)
        async with provider_of("ollama") as provider:
            return await read(provider, call, stage.timeout)

    return asyncio.run(run())


def test_the_adapter_reads_an_answer_and_what_it_took(target: Target) -> None:
    reply = asked(target, tokens=4)
    assert (reply.fault, bool(reply.text)) == (None, True)
    assert reply.end is not None
    assert reply.end.finish_reason == "length"
    assert reply.usage is not None
    assert (reply.usage.output_tokens, reply.usage.input_tokens > 1) == (4, True)


def test_the_adapter_gets_what_a_schema_asks_for(target: Target) -> None:
    reply = asked(target, tokens=200, to=target.keeps_to_schema, response_schema=SCHEMA, temperature=0.0)
    assert isinstance(json.loads(reply.text)["age"], int)


def test_the_adapter_is_refused_where_a_prompt_does_not_fit(target: Target) -> None:
    """It never takes an answer from half a prompt: its window holds 512, this has more."""
    fault = asked(target, tokens=4, messages=TOO_LONG).fault
    assert fault is not None
    assert (fault.kind, fault.status) == (Kind.STATUS, 400)
    assert "context" in fault.words.text


def test_the_adapter_is_told_of_a_missing_model(target: Target) -> None:
    fault = asked(target, tokens=4, model="no-such-model:1b").fault
    assert fault is not None
    assert (fault.kind, fault.status) == (Kind.STATUS, 404)
    assert "not found" in fault.words.text
