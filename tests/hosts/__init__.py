"""A scripted provider: a real server on loopback that answers, fails, drips, stalls and cuts off to order.

    with Host() as host:
        url = host.openai("status:429:retry-after=7,ok")   # a base URL; each call of this makes a stage of its own
        ...
        host.calls(url), host.most_at_once(url), host.in_flight(url), host.others(url)

By hand: `python -m tests.hosts --port 9999`; the behaviour stands in the path, http://127.0.0.1:9999/status:500/v1
(openai), /status:500/v1beta (gemini) or /status:500 (anthropic, ollama). `/s/NAME/` before it makes a stage with a log
of its own, and GET /calls shows all logs.

A script is `behaviour:parameter=value:flag,behaviour,...`: the first call meets the first behaviour, the last one
repeats. A backslash before `,`, `:` or a backslash takes it as text (`literal` writes it). Seconds are decimal
numbers. With every behaviour go `delay=2`, which waits before anything is sent, and parameters that become headers:
retry-after=, retry-after-ms= and all that begin with x-. A behaviour or parameter that is not in this table is
refused by `openai()` and its like with a ValueError, by hand with a 404.

behaviour        parameters (default)         what the caller meets
---------        --------------------         ---------------------
ok               text=, echo, every=, load=,  an answer in a few chunks, `every` seconds apart; `echo` says the
                 finish=, input=, output=,    last user message back; `load` is a cold model: the first call to
                 type=                        hold out so long loads it, and Ollama's /api/ps shows it from then
                                              on, a call that leaves sooner throws the load away; `finish` is
                                              stop, length or content_filter, which each protocol says in its
                                              own way, or any word as it is; `input` and `output` set the
                                              counted tokens, which else are words; `type` is a content type
thinking         as ok                        reasoning text first, then the answer
length           as ok                        text, cut at the output limit
length-empty     thinking                     the output limit with no text, with `thinking` only reasoning
empty                                         a well-formed end, no text
repeat           as ok, times=200             text that ends in one unit, `text`, again and again, and a
                                              well-formed end
no-end           as ok                        all of the text and a clean end of the body, but no end marker
no-done          as ok                        finish reason and usage, but not the last mark (openai's [DONE],
                                              anthropic's message_stop); else as no-end
late-error       as ok and status, past       all of the text, the finish reason, then an error before the last
                                              mark, with `past` after it; where finish and last mark are one,
                                              in its place
late-cut         as ok, past, reset           the same with a cut in the place of the error
status           500, code=, type=, message=, an error of that status in the protocol's shape: openai's code, type
                 param=, retry-delay=,        and param, a code of digits as a number; anthropic's type, code in
                 quota=, quote, list, html,   the details; gemini's status (`type`) and details: the reason
                 body=, mb=20,                (`code`), a field (`param`), RetryInfo (`retry-delay`) and
                 drip, every=0.1              QuotaFailure (`quota`); ollama's one string. `quote` as below;
                                              `list` puts it into a list, `html` is a page instead and `body`
                                              that text as it is; `mb` is a message of so many megabytes;
                                              `drip` is a body that never ends
quote            as status (400)              an error that quotes back the caller's key, the full URL and the
                                              last user message, with control characters
error-200        as status, no page or body   200 and a body that is an error and nothing else
error-in-stream  as error-200, after=1        so many chunks, an error object, a clean end of the body
null-choices     block=, input=, output=      an answer with null where its text should be: choices, content,
                                              candidates, message; `block` is gemini's blockReason
empty-candidates as null-choices              the same with nothing in it, for gemini nothing at all
redirect         to=, status=302              a Location; by default `/elsewhere` below the stage, which is a web page
silent                                        the request is read, nothing is ever sent
head-only                                     headers, then nothing
head-drip        every=0.1                    headers, byte by byte, for ever
stall            after=2                      so many chunks of text, then nothing
drip             every=0.3                    one chunk of text after the other, for ever
whitespace       every=0.1                    the same with blank text
role-only        every=0.1                    the same with a role and no text
blanks           every=0.1                    keep-alive comments, pings or blank lines, for ever, no chunk
cut              after=2, reset               so many chunks, then the socket closes; `reset` is the hard way
cut-head         reset                        the socket closes before any header
short            text=, echo, finish=,        half the body that Content-Length promises, then the socket closes
                 input=, output=
bad-chunks       after=2                      so many chunks, then one whose size is no number, then the same
not-http                                      another protocol's greeting in the place of a status line
unreadable       garbage, shape               200 and a web page; `garbage`: half an object in the protocol's
                                              frame; `shape`: an object the protocol does not have
big              mb=20, line                  an answer of so many megabytes; `line` puts it into one chunk
gzip             as short, mb=, garbage       an answer that is compressed though nobody asked; `mb` megabytes of
                                              text in a small body; `garbage` says it is compressed and it is not
long-header      as ok, kb=1024                an answer below a header of so many kilobytes

A call that does not stream gets the same as one JSON body; where the behaviour never ends, an unfinished one.

Ollama's protocol has more. `/api/generate` is a call like `/api/chat`. Either without a message or prompt loads the
model, in the `load` seconds of the next call, or unloads it (`keep_alive` 0); that is no call, and stands in
`others` as `POST /api/chat load` or `unload`. A model stays as long as the last `keep_alive` says, and another
`num_ctx` loads it anew; /api/ps tells. `host.ollama(..., strict=True)` also refuses what Ollama refuses (a model that
is not pulled, a wrong option, a prompt longer than `num_ctx` words with `truncate` false, ...), cuts an answer at
`num_predict` words, and answers one call at a time; what it refuses is no call either.
"""

from __future__ import annotations

from tests.hosts.host import Host
from tests.hosts.log import Call, Outcome
from tests.hosts.script import literal

__all__ = ["Call", "Host", "Outcome", "literal"]
