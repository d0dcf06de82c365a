"""What differs between the models behind OpenAI's protocol, whoever serves them, as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SAMPLING = frozenset(
    {"temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"}
)
"""What OpenAI takes only from a model that does not think (its guide to reasoning; pydantic-ai's SAMPLING_PARAMS)."""

_LEAST = ("none", "minimal", "low", "medium")
"""What "none" may become: a model that knows nothing but "high" is left to itself."""


@dataclass(frozen=True, slots=True)
class Model:
    """`efforts` is what it can be asked for, the least first; where there is none, it refuses to be asked.

    `thinks`: also when no effort is said, and refuses `SAMPLING` then. `stop`: it takes texts to stop at.
    """

    efforts: Sequence[str] = ()
    thinks: bool = False
    stop: bool = True

    def effort(self, wanted: str) -> str | None:
        """What to ask it for, for so much thinking; None: nothing."""
        if wanted in self.efforts:
            return wanted
        least = self.efforts[0] if wanted == "none" and self.efforts else None
        return least if least in _LEAST else None

    def refuses(self, effort: object) -> frozenset[str]:
        """The fields that OpenAI refuses for it beside this effort; None: nothing is said of it."""
        calm = effort == "none" or (effort is None and not self.thinks)
        return (frozenset() if calm else SAMPLING) | (frozenset() if self.stop else {"stop"})


_USUAL = ("low", "medium", "high")

_MODELS: Sequence[tuple[str, Model]] = (
    (r"gpt-?[34]|chatgpt-4o|gpt-5-chat", Model()),
    (r"gpt-5[.\d]*-chat|chat-latest", Model(thinks=True, stop=False)),  # one fixed effort
    (r"gpt-5-pro", Model(("high",), thinks=True, stop=False)),
    (r"gpt-5[.\d]*-pro", Model(("medium", "high"), thinks=True, stop=False)),
    (r"gpt-5(\.1)?-codex|gpt-[\w.]+-pro|gpt-6-astra", Model(_USUAL, thinks=True, stop=False)),
    (r"gpt-5(?![.\d])", Model(("minimal", *_USUAL), thinks=True, stop=False)),
    (r"gpt-5\.[1-4](?!\d)", Model(("none", *_USUAL), stop=False)),
    (r"gpt-\d", Model(("none", *_USUAL), thinks=True, stop=False)),  # 5.5 and on
    (r"o1-(mini|preview)", Model(thinks=True)),
    (r"o1", Model(_USUAL, thinks=True)),
    (r"o\d", Model(_USUAL, thinks=True, stop=False)),
    (r"gpt-oss", Model(_USUAL)),
    (r"gemini-(1|2\.0)|gemma-?[1-3]|(meta-)?llama-?[1-4]", Model()),
    (r"gemini-2\.5-flash", Model(("none", *_USUAL))),
    (r"gemini-(2\.5|[3-9])", Model(("minimal", *_USUAL))),
)
"""The first pattern that matches the start of a model's name decides.

Sources: OpenAI's reference of chat completions, guide to reasoning and model pages; pydantic-ai's table of what the
live interface took (2026-07); Google's page on its OpenAI compatibility: only 2.5 Flash can stop thinking.
"""

OTHER = Model(("none", *_USUAL))
"""Any other model, and a deployment under a name of its owner's."""

_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), model) for pattern, model in _MODELS)


def model_of(name: str) -> Model:
    """By its own name: gateways and Google put the maker's before it, and OpenAI `ft:` where it is tuned."""
    plain = name.rsplit("/", 1)[-1].removeprefix("ft:")
    return next((model for pattern, model in _PATTERNS if pattern.match(plain)), OTHER)
