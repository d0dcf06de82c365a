"""Flower on this machine: its buttons work without a login, and only for pages of its own.

Private API of Flower stands here only; the pin in pyproject.toml is for it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

FORBIDDEN = 403


def flower_defaults(arguments: Sequence[str], environ: MutableMapping[str, str]) -> None:
    """Make Flower's buttons work when it is started by hand, on loopback only.

    Without a login Flower answers 401 to its own buttons unless it is told that this is meant; that is safe only
    where nobody else can reach it, so the address is loopback unless another one was named, and pages of other sites,
    which a browser on this machine shows too, are kept out by `guard`.
    """
    if "flower" not in arguments:
        return
    address = environ.setdefault("FLOWER_ADDRESS", "127.0.0.1")
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.startswith("--address"):
            address = word.partition("=")[2] or following
    if is_loopback(address):
        environ.setdefault("FLOWER_UNAUTHENTICATED_API", "true")
        guard()


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def guard() -> None:
    """Have Flower's API refuse what a page of another site sends, and let no other site read from it.

    Without a login Flower 2.2 checks neither, and tells browsers that every site may read.
    """
    from flower.api import BaseApiHandler  # noqa: PLC0415 - a worker needs no Flower
    from flower.views import BaseHandler  # noqa: PLC0415
    from tornado.web import HTTPError  # noqa: PLC0415

    stock = BaseApiHandler.prepare

    def prepare(self: Any) -> Any:  # noqa: ANN401 - Tornado's handler
        if is_foreign(self.request.headers, self.request.host):
            raise HTTPError(FORBIDDEN, "Flower's API is for its own pages and for programs on this machine")
        return stock(self)

    def set_default_headers(self: Any) -> None:  # noqa: ANN401
        self.set_header("X-Content-Type-Options", "nosniff")

    BaseApiHandler.prepare = prepare
    BaseHandler.set_default_headers = set_default_headers


def is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Whether a browser sent this for a page of another site, or for a name that was made to point at this machine."""
    name = urlsplit(f"//{host}").hostname or ""
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if not is_loopback(name) or site in {"cross-site", "same-site"}:
        return True
    return bool(origin) and urlsplit(str(origin)).netloc != host
