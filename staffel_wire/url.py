"""A Redis URL as a person may see it."""

from __future__ import annotations


def shown_url(url: str) -> str:
    """A URL as a person may see it, without the password."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else scheme.rpartition("@")[2]
