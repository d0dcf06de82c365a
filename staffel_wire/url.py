"""A Redis as a person may hear of it: its URL without the password, and what is wrong with it."""

from __future__ import annotations


def shown_url(url: str) -> str:
    """A URL as a person may see it: without the password, and without a query, which may hold one too."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}" if mark else scheme.rpartition("@")[2]


def trouble(shown: str, error: Exception) -> str:
    """The line for a Redis that failed; by the name of its error's kinds, since not everyone here may load redis-py."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "AuthenticationError" in kinds:
        return f"Redis at {shown} refuses the password; mend STAFFEL_REDIS_URL"
    if "ResponseError" in kinds:  # the rest of its text may quote what it was sent
        return f"Redis at {shown} refuses: {str(error).partition(',')[0].partition(' script:')[0][:80]}"
    return f"Redis does not answer at {shown}: start it, or set STAFFEL_REDIS_URL"
