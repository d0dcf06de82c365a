"""Errors that a host tells: by their status, in the midst of a stream, or with a status that says all is well."""

from __future__ import annotations

from typing import Any

from tests.hosts.answers import said, some, tell
from tests.hosts.dialect import Failure
from tests.hosts.exchange import Exchange

PAGE = "<!DOCTYPE html><html><head><title>Welcome</title></head><body><h1>Please log in</h1></body></html>"
HTML = "text/html; charset=utf-8"
_INVITATION = "Please log in"
_MEGABYTE = 2**20


def _failure(call: Exchange, status: int = 500) -> Failure:
    given = call.step.parameters
    code = given.get("code")
    return Failure(
        status=call.step.count("status", int(code) if code is not None and code.isdigit() else status),
        code=code,
        message=_message(call),
        type=given.get("type"),
        param=given.get("param"),
        retry_delay=given.get("retry-delay"),
        quota=given.get("quota"),
    )


def _message(call: Exchange) -> str | None:
    if call.step.has("mb"):
        return "x" * int(call.step.number("mb", 20) * _MEGABYTE)
    message = call.step.parameters.get("message")
    if not (call.step.has("quote") or call.step.name == "quote"):
        return message
    # Escape, carriage return, newline, bell and NUL: what a terminal or a log takes for a command.
    return f"{message or 'Refused'}: \x1b[31mkey {call.key}\x1b[0m\r\nat {call.url}\x07\nsaid\x00 {call.question}"


def _body(call: Exchange, status: int) -> Any:
    error = call.dialect.error(_failure(call, status))
    return [error] if call.step.has("list") else error


async def status(call: Exchange) -> None:
    await _refuse(call, call.step.count("status", 500))


async def quote(call: Exchange) -> None:
    await _refuse(call, call.step.count("status", 400))


async def _refuse(call: Exchange, number: int) -> None:
    if call.step.has("drip"):
        await _drip(call, number)
    elif call.step.has("html"):
        await call.reply(number, PAGE.replace(_INVITATION, _message(call) or _INVITATION), HTML)
    elif call.step.has("body"):
        await call.reply(number, call.step.text("body", ""))
    else:
        await call.reply_json(_body(call, number), number)


async def _drip(call: Exchange, number: int) -> None:
    await call.start(number)
    await call.send(b'{"error": {"message": "')
    while True:
        await call.send(b"No. ")
        await call.wait(call.step.number("every", 0.1))


async def redirect(call: Exchange) -> None:
    call.headers["Location"] = call.step.text("to", f"{call.home}/elsewhere")
    await call.reply(call.step.count("status", 302), "", HTML)


async def error_200(call: Exchange) -> None:
    await call.reply_json(_body(call, 500))


async def error_in_stream(call: Exchange) -> None:
    error = call.dialect.error(_failure(call))
    if not call.dialect.streams:
        await call.reply_json(error)
        return
    await some(call, call.step.count("after", 1))
    await call.finish(call.dialect.frame(error))


async def late_error(call: Exchange) -> None:
    answer, error = said(call), call.dialect.error(_failure(call))
    if not call.dialect.streams:
        await call.reply_json({**call.dialect.whole(answer), "error": error["error"]})
        return
    await tell(call, answer)
    ending = call.dialect.ending(answer)
    if call.step.has("past"):
        await call.finish(ending.all + call.dialect.frame(error))
    else:
        # Where finish and last mark are one, the error comes in its place.
        await call.finish(ending.closing + call.dialect.frame(error) + (ending.mark if ending.closing else b""))
