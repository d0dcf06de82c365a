"""A scripted provider: a real server on loopback that answers, fails, drips, stalls and cuts off to order.

    with Host() as host:
        url = host.openai("status:429:retry-after=7,ok")   # a base URL; each call of this makes a stage of its own
        ...
        host.calls(url), host.most_at_once(url), host.in_flight(url), host.others(url)

By hand: `python -m tests.hosts --port 9999`; the behaviour stands in the path, http://127.0.0.1:9999/status:500/v1
(openai) or http://127.0.0.1:9999/status:500 (ollama). `/s/NAME/` before it makes a stage with a log of its own, and
GET /calls shows all logs.

A script is `behaviour:parameter=value:flag,behaviour,...`: the first call meets the first behaviour, the last one
repeats. A backslash before `,`, `:` or a backslash takes it as text (`literal` writes it). Seconds are decimal
numbers. `delay=2` waits before anything is sent and goes with every behaviour. A behaviour or parameter that is not
in this table is refused by `openai()` and `ollama()` with a ValueError, by hand with a 404.

behaviour        parameters (default)         what the caller meets
---------        --------------------         ---------------------
ok               text=, echo, every=, load=,  an answer in a few chunks, `every` seconds apart; `echo` says the
                 finish=, input=, output=     last user message back; `load` is a cold model: the first call to
                                              hold out so long loads it, and Ollama's /api/ps shows it from then
                                              on, a call that leaves sooner throws the load away; `finish` is
                                              the protocol's own word; `input` and `output` set the counted
                                              tokens, which else are words
thinking         as ok                        reasoning text first, then the answer
length           as ok                        text, cut at the output limit
length-empty     thinking                     the output limit with no text, with `thinking` only reasoning
empty                                         a well-formed end, no text
no-end           as ok                        all of the text and a clean end of the body, but no end marker
status           500, code=, message=, body=, an error of that status in the protocol's shape; `html` a page
                 html, retry-after=, x-...=   instead, `body` that text as it is; retry-after... and x-...
                                              become headers
redirect         to=, status=302              a Location; by default `/elsewhere` below the stage, which is a web page
silent                                        the request is read, nothing is ever sent
head-only                                     headers, then nothing
stall            after=2                      so many chunks of text, then nothing
drip             every=0.3                    one chunk of text after the other, for ever
blanks           every=0.1                    keep-alive comments or blank lines, for ever, no text
cut              after=2, reset               so many chunks, then the socket closes; `reset` is the hard way
cut-head         reset                        the socket closes before any header
error-in-stream  code=, message=              one chunk, an error object, a clean end of the body
unreadable       garbage, shape               200 and a web page; `garbage`: half an object in the protocol's
                                              frame; `shape`: an object the protocol does not have
big              mb=20, line                  an answer of so many megabytes; `line` puts it into one chunk

A call that does not stream gets the same as one JSON body; where the behaviour never ends, an unfinished one.
"""

from __future__ import annotations

from tests.hosts.host import Host
from tests.hosts.log import Call, Outcome
from tests.hosts.script import literal

__all__ = ["Call", "Host", "Outcome", "literal"]
