"""A document's summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staffel_wire.errors import Invalid
from staffel_wire.request import Request, parse
from tasks.job import JobTask, Result
from worker.celery import app

INSTRUCTION = (
    "You summarize documents. Write a summary of two or three sentences, in the language of the document. "
    "Say only what the document says. Write the summary and nothing else."
)

MAX_OUTPUT_TOKENS = 160
"""Three sentences in any language fit; a small model that rambles is stopped here."""


def request_of(text: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any other field of a request
    """The request that asks for the summary of a text; a NUL byte in it is dropped."""
    prompt = f"Summarize this document:\n\n{text.replace(chr(0), '')}"
    return {
        "system": INSTRUCTION,
        "max_output_tokens": MAX_OUTPUT_TOKENS,
        "temperature": 0.0,
        **fields,
        "prompt": prompt,
    }


class SummarizeTask(JobTask):
    abstract = True
    text_field = "text"

    def door(self, fields: object, max_bytes: int) -> Request:
        if not isinstance(fields, Mapping) or not isinstance(text := fields.get("text"), str):
            raise Invalid("text: missing; a summary needs the document's text")
        if not text.strip():
            raise Invalid("text: the document is empty")
        others = {name: value for name, value in fields.items() if name != "text"}
        return parse(request_of(text, **others), max_bytes)


@app.task(base=SummarizeTask, bind=True, name="tasks.summarize")
def summarize(self: SummarizeTask, *args: object, **kwargs: object) -> Result:
    """Summarize one text; `summarize.delay({"text": "...", "chain": "default"})`."""
    return JobTask.run(self, *args, **kwargs)
