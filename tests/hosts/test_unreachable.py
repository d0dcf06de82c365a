"""Places where no request can be made."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from tests.hosts import Host


def test_nothing_listens_where_connections_are_refused(host: Host, client: httpx.Client) -> None:
    """The port is held, so that nobody else comes to listen there."""
    with pytest.raises(httpx.ConnectError):
        client.post(f"{host.refused()}/chat/completions", json={})
    assert host.refused() != host.refused()


def test_a_full_queue_neither_takes_nor_refuses_a_connection(host: Host, client: httpx.Client) -> None:
    """As a firewall does that drops what it does not like: only the caller's clock ends the wait."""
    url = host.unaccepting()
    for _ in range(2):
        with pytest.raises(httpx.ConnectTimeout):
            client.post(url, json={}, timeout=0.2)


def test_a_silent_tls_host_takes_the_connection_and_says_nothing(host: Host, client: httpx.Client) -> None:
    """The handshake of TCP ends, the one of TLS does not, however many callers try."""
    url = host.tls_silent()
    parts = urlsplit(url)
    assert parts.scheme == "https"
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=0.1) as endpoint:
        endpoint.sendall(b"hello")
        with pytest.raises(TimeoutError):
            endpoint.recv(1)
    for _ in range(2):
        with pytest.raises(httpx.ConnectTimeout):
            client.post(url, json={}, timeout=0.2)


def test_an_unknown_host_has_a_name_that_nobody_may_have(host: Host) -> None:
    """Asked for at no name server here: what one answers, and when, is not the host's doing."""
    assert str(urlsplit(host.unknown()).hostname).endswith(".invalid")


def test_the_places_are_gone_with_the_host() -> None:
    """Also the connections that filled the queue."""
    with Host() as host:
        urls = [host.unaccepting(), host.tls_silent(), host.refused()]
    for url in urls:
        parts = urlsplit(url)
        before = time.monotonic()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((str(parts.hostname), parts.port or 0), timeout=5)
        assert time.monotonic() - before < 2
