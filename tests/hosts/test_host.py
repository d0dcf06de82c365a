"""The host's connections and its log."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from tests.eventually import eventually
from tests.hosts import Host, Outcome
from tests.hosts.answers import TEXT
from tests.hosts.connection import Connection
from tests.hosts.listener import MARKS, QUESTION, endpoint_of, hear, question, read_until, request_of, send, stage


def test_a_call_is_logged_with_all_that_was_sent(host: Host, protocol: str, client: httpx.Client) -> None:
    """Headers in lower case, the parsed body, when it began and ended."""
    url = stage(host, protocol, "ok")
    before = time.monotonic()
    client.post(
        url + endpoint_of(protocol, stream=False), json=question(protocol, stream=False), headers={"X-Request": "Seven"}
    )
    (call,) = host.calls(url)
    assert (call.number, call.protocol, call.behaviour) == (1, protocol, "ok")
    assert (call.body, call.headers["x-request"]) == (question(protocol, stream=False), "Seven")
    assert call.ended is not None
    assert before <= call.started <= call.ended <= time.monotonic()
    assert (call.outcome, call.closed_at) == (Outcome.SERVED, None)


def test_each_call_meets_the_next_behaviour_and_the_last_one_repeats(host: Host, protocol: str) -> None:
    """Calls of one stage are numbered, whatever came of them."""
    url = stage(host, protocol, "status:500,cut-head,ok")
    assert [hear(url, protocol, stream=True).status for _ in range(4)] == [500, 0, 200, 200]
    assert [call.number for call in host.calls(url)] == [1, 2, 3, 4]
    assert [call.behaviour for call in host.calls(url)] == ["status", "cut-head", "ok", "ok"]


def test_stages_of_the_same_behaviour_have_logs_of_their_own(host: Host, protocol: str) -> None:
    """Also their place in the script is their own."""
    one, other = (stage(host, protocol, "ok,status:500") for _ in range(2))
    assert [hear(url, protocol, stream=True).status for url in (one, other, one)] == [200, 200, 500]
    assert (len(host.calls(one)), len(host.calls(other))) == (2, 1)


def test_a_url_of_another_host_has_no_log(host: Host) -> None:
    """A mistyped URL must not look like a stage that was never called."""
    with pytest.raises(LookupError, match="no stage of this host"):
        host.calls(f"{host.url}/s/99/ok/v1")


def test_a_script_with_a_mistake_is_refused_where_it_is_written(host: Host, client: httpx.Client) -> None:
    """And by hand, where the path is all there is, with a line that says so."""
    with pytest.raises(ValueError, match="no behaviour 'okay'"):
        host.openai("okay")
    answer = client.post(f"{host.url}/okay/v1/chat/completions", json={})
    assert (answer.status_code, answer.text[:24]) == (404, "no behaviour 'okay'; the")


@pytest.mark.parametrize("script", ["silent", "head-only", "stall", "ok:delay=60", "drip:every=60", "ok:every=60"])
def test_a_clients_close_is_seen_at_once(host: Host, protocol: str, script: str) -> None:
    """The time of the close is logged, not the time of the next write: here that would be never or in a minute."""
    url = stage(host, protocol, script)
    endpoint = send(url, protocol)
    eventually(lambda: host.in_flight(url), "the call is in flight")
    assert (host.calls(url)[0].outcome, host.calls(url)[0].ended) == (Outcome.IN_FLIGHT, None)
    closing = time.monotonic()
    endpoint.close()
    eventually(lambda: not host.in_flight(url), "the close is logged", timeout=5)
    (call,) = host.calls(url)
    assert call.outcome is Outcome.ABORTED
    assert call.closed_at is not None
    assert closing <= call.closed_at == call.ended


def test_the_host_lets_go_of_a_client_that_has_left(host: Host, protocol: str) -> None:
    """Closing only the sending side counts as leaving, and shows that the host closes its side too."""
    url = stage(host, protocol, "silent")
    with send(url, protocol) as endpoint:
        endpoint.shutdown(socket.SHUT_WR)
        assert endpoint.recv(1) == b""
    assert host.calls(url)[0].outcome is Outcome.ABORTED


def test_closing_after_the_end_is_no_abort(host: Host, protocol: str) -> None:
    """Also for a client that asked for the close, or leaves when it has the end marker."""
    url = stage(host, protocol, "ok")
    with send(url, protocol, headers="Connection: close\r\n") as endpoint:
        received = read_until(endpoint, b"never")
    assert received.endswith(b"0\r\n\r\n")
    assert b"\r\nConnection: close\r\n" in received
    with send(url, protocol) as endpoint:
        read_until(endpoint, MARKS[protocol])
    eventually(lambda: not host.in_flight(url), "both calls have ended")
    assert [call.outcome for call in host.calls(url)] == [Outcome.SERVED, Outcome.SERVED]


def test_calls_one_after_the_other_share_a_connection(host: Host, protocol: str, client: httpx.Client) -> None:
    """Keep-alive works after a stream, a whole body, an error and a page; not after a cut."""
    url = stage(host, protocol, "ok,status:500,unreadable,no-end,ok")
    for streams in (True, True, False, True, False):
        client.post(url + endpoint_of(protocol, stream=streams), json=question(protocol, stream=streams))
    assert len({call.connection for call in host.calls(url)}) == 1


def test_a_chunked_request_is_read(host: Host, protocol: str, client: httpx.Client) -> None:
    """Some clients send a body whose length they do not say, in pieces of any size."""
    url = stage(host, protocol, "ok:echo")
    body = json.dumps(question(protocol, stream=False)).encode()
    answer = client.post(
        url + endpoint_of(protocol, stream=False), content=(body[at : at + 7] for at in range(0, len(body), 7))
    )
    assert QUESTION in answer.text
    assert host.calls(url)[0].body == question(protocol, stream=False)


def test_a_body_of_megabytes_is_read(host: Host, protocol: str, client: httpx.Client) -> None:
    """As a long document is one."""
    url = stage(host, protocol, "ok:text=Fine.")
    answer = client.post(
        url + endpoint_of(protocol, stream=False), json=question(protocol, stream=False, text="word " * 800_000)
    )
    assert "Fine." in answer.text
    assert "800002" in answer.text


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"{", b'{"messages": 1}', b'{"messages": [1]}', b'{"contents": [{"parts": 1}]}', b"\xff"]
)
def test_a_body_that_is_no_question_is_answered_all_the_same(
    host: Host, protocol: str, client: httpx.Client, body: bytes
) -> None:
    """The host is no judge of requests; its log shows what came."""
    url = stage(host, protocol, "ok:echo")
    assert client.post(url + endpoint_of(protocol, stream=False), content=body).status_code == 200
    assert len(host.calls(url)) == 1


@pytest.mark.parametrize(
    "request_text", ["hello\r\n\r\n", "GET /\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_not_http_ends_the_connection(host: Host, request_text: str) -> None:
    """And leaves the host as it was."""
    with socket.create_connection(("127.0.0.1", urlsplit(host.url).port or 0), timeout=10) as endpoint:
        endpoint.sendall(request_text.encode())
        assert endpoint.recv(1000) == b""
    assert hear(host.openai(), "openai", stream=True).text == TEXT


def test_most_at_once_counts_what_was_in_flight_together(host: Host, protocol: str) -> None:
    """Three that wait, then one after the other."""
    url = stage(host, protocol, "silent,silent,silent,ok")
    with ExitStack() as stack:
        for number in (1, 2, 3):
            stack.enter_context(send(url, protocol))
            eventually(lambda: host.in_flight(url) == number, f"{number} calls in flight")  # noqa: B023
    eventually(lambda: host.in_flight(url) == 0, "all three have gone")
    assert hear(url, protocol, stream=True).status == 200
    assert (host.most_at_once(url), host.in_flight(url), len(host.calls(url))) == (3, 0, 4)


@pytest.mark.parametrize("script", ["ok", "status:500", "stall:after=1", "cut:after=1", "empty"])
def test_a_client_that_keeps_to_one_at_a_time_is_never_logged_as_two(host: Host, protocol: str, script: str) -> None:
    """However fast it asks again once it has the end or has closed: a lane of one is judged by this figure."""
    url = stage(host, protocol, script)
    mark = MARKS[protocol]
    ends = {"ok": mark, "empty": mark, "status:500": b"error", "stall:after=1": b"Hello", "cut:after=1": b"never"}
    for _ in range(50):
        with send(url, protocol) as endpoint:
            read_until(endpoint, ends[script])
    eventually(lambda: host.in_flight(url) == 0, "all have ended")
    assert (host.most_at_once(url), len(host.calls(url))) == (1, 50)


def test_leaving_one_connection_for_another_that_is_open_is_never_two_at_once(host: Host, protocol: str) -> None:
    """A pool does that: the close and the next request reach the host in the same moment."""
    url = stage(host, protocol, ",".join(["ok", *["stall:after=1", "ok"] * 30]))
    with send(url, protocol) as kept:
        read_until(kept, b"\r\n0\r\n\r\n")
        for _ in range(30):
            with send(url, protocol) as left:
                read_until(left, b"Hello")
            kept.sendall(request_of(url, protocol))
            assert read_until(kept, b"\r\n0\r\n\r\n")
    assert (host.most_at_once(url), len(host.calls(url))) == (1, 61)
    assert len({call.connection for call in host.calls(url)}) == 31


def test_300_calls_are_held_at_once_for_next_to_nothing(host: Host, protocol: str) -> None:
    """They cost their beginning and their end, and nothing while they wait."""
    url = stage(host, protocol, "silent")
    with ExitStack() as stack, ThreadPoolExecutor(20) as pool:
        endpoints = list(pool.map(lambda _: stack.enter_context(send(url, protocol)), range(300)))
        eventually(lambda: host.in_flight(url) == 300, "all calls are in flight")
        spent = time.process_time()
        endpoints[0].settimeout(0.5)
        with pytest.raises(TimeoutError):
            endpoints[0].recv(1)
        assert time.process_time() - spent < 0.25
    eventually(lambda: host.in_flight(url) == 0, "all have gone")
    assert host.most_at_once(url) == 300
    assert {call.outcome for call in host.calls(url)} == {Outcome.ABORTED}


def test_300_calls_at_once_are_all_answered(host: Host, protocol: str) -> None:
    """None is lost among the others."""
    url = stage(host, protocol, "ok:delay=0.3")
    with ExitStack() as stack, ThreadPoolExecutor(20) as pool:
        endpoints = list(pool.map(lambda _: stack.enter_context(send(url, protocol)), range(300)))
        answers = list(pool.map(lambda endpoint: read_until(endpoint, b"\r\n0\r\n\r\n"), endpoints))
    assert all(b"host." in answer for answer in answers)
    assert {call.outcome for call in host.calls(url)} == {Outcome.SERVED}


def test_stopping_the_host_ends_every_call_and_its_thread() -> None:
    """Calls in flight are logged as stopped, and the log outlives the host."""
    before = set(threading.enumerate())
    with Host() as host:
        url = host.openai("silent")
        big = host.ollama("big")
        endpoints = [send(url, "openai"), send(big, "ollama")]
        eventually(lambda: host.in_flight(url) + host.in_flight(big) == 2, "both calls in flight")
    for endpoint in endpoints:
        endpoint.close()
    assert [call.outcome for call in host.calls(url) + host.calls(big)] == [Outcome.STOPPED, Outcome.STOPPED]
    assert set(threading.enumerate()) <= before


def test_a_mistake_of_the_host_itself_does_not_go_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken host would look like a broken provider, which is what the tests expect."""

    async def broken(self: Connection, data: bytes, **_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Connection, "write", broken)
    with pytest.raises(ExceptionGroup, match="the scripted host made a mistake"), Host() as host:
        assert hear(host.openai(), "openai", stream=True).broken is httpx.RemoteProtocolError


def test_a_port_in_use_is_an_error_of_the_caller(host: Host) -> None:
    """The host does not take another one silently."""
    with pytest.raises(OSError, match="in use"), Host(port=urlsplit(host.url).port or 0):
        pass


def test_ollamas_models_are_listed(host: Host, client: httpx.Client) -> None:
    """Those that are pulled and those that are loaded, and what has to do with them in an answer."""
    names = ["tiny:latest", "large:latest"]
    url = host.ollama("ok,status:404", models=tuple(names))
    assert [model["model"] for model in client.get(f"{url}/api/tags").json()["models"]] == names
    assert [model["name"] for model in client.get(f"{url}/api/ps").json()["models"]] == names
    last = hear(url, "ollama", stream=True).objects[-1]
    assert (last["done"], last["done_reason"], last["prompt_eval_count"], last["model"]) == (True, "stop", 7, "m")
    assert last["total_duration"] >= last["eval_duration"] > 0
    assert hear(url, "ollama", stream=True).error == "model 'm' not found"
    assert host.others(url) == ["GET /api/tags", "GET /api/ps"]


def test_the_hosts_health_can_be_asked(host: Host, client: httpx.Client) -> None:
    """None of these is a call, whatever the script does with calls."""
    url = host.ollama("silent")
    head = client.head(f"{url}/")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "17", b"")
    assert client.get(f"{url}/api/version").json()["version"]
    assert client.get(f"{url}/api/nothing").status_code == 404
    assert client.get(f"{host.openai(models=('m',))}/models").json()["data"][0]["id"] == "m"
    assert client.get(f"{host.gemini(models=('m',))}/models").json()["models"][0]["name"] == "models/m"
    assert client.get(f"{host.anthropic(models=('m',))}/v1/models").json()["data"][0]["id"] == "m"
    assert (host.calls(url), len(host.others(url))) == ([], 3)


def test_a_cold_model_is_loaded_by_the_first_call_that_holds_out(host: Host, client: httpx.Client) -> None:
    """A client that leaves before throws the load away; once loaded, the model answers at once."""
    url = host.ollama("ok:load=0.5")

    def resident() -> bool:
        return bool(client.get(f"{url}/api/ps").json()["models"])

    assert not resident()
    assert hear(url, "ollama", stream=True, timeout=0.1).broken is httpx.ReadTimeout
    assert not resident()
    cold, warm = hear(url, "ollama", stream=True), hear(url, "ollama", stream=True)
    assert resident()
    assert cold.objects[-1]["load_duration"] == 500_000_000 > warm.objects[-1]["load_duration"]
    assert cold.text == warm.text == TEXT
