"""What is Gemini's own in the host's answers."""

from __future__ import annotations

import json

import pytest

from tests.hosts import Host
from tests.hosts.answers import TEXT, THINKING
from tests.hosts.listener import hear, hear_at


def test_the_last_chunk_of_a_stream_has_finish_reason_and_usage(host: Host) -> None:
    """There is no other mark of the end; the reasoning is a part with a flag and is counted apart."""
    heard = hear(host.gemini("thinking"), "gemini", stream=True)
    *chunks, last = [item["candidates"][0] for item in heard.objects]
    assert last["finishReason"] == "STOP"
    assert not any("finishReason" in chunk for chunk in chunks)
    parts = [part for chunk in chunks for part in chunk["content"]["parts"]]
    assert "".join(part["text"] for part in parts if part.get("thought")) == THINKING
    assert heard.objects[-1]["usageMetadata"] == {
        "promptTokenCount": 7,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 6,
        "totalTokenCount": 18,
    }


@pytest.mark.parametrize(
    ("script", "finish", "objects"),
    [("ok", "STOP", 6), ("no-end", None, 5), ("no-end:text=", None, 0), ("error-in-stream", None, 2)],
)
def test_without_events_a_stream_is_one_array(host: Host, script: str, finish: str | None, objects: int) -> None:
    """Well-formed also where the answer in it has no end."""
    url = host.gemini(script)
    heard = hear_at(f"{url}/models/m:streamGenerateContent", "gemini", stream=True)
    assert heard.headers["content-type"].startswith("application/json")
    chunks = json.loads(heard.body)
    assert len(chunks) == objects
    finishes = [item.get("finishReason") for chunk in chunks[-1:] for item in chunk.get("candidates", [])]
    assert (finishes or [None]) == [finish]


def test_a_whole_answer_is_one_object(host: Host) -> None:
    """With all parts in one candidate; the model stands in the path, also with a slash in it."""
    url = host.gemini("thinking")
    heard = hear_at(f"{url}/models/tuned/m-1:generateContent", "gemini", stream=False)
    (candidate,) = heard.objects[0]["candidates"]
    assert candidate["content"]["parts"] == [{"text": THINKING, "thought": True}, {"text": TEXT}]
    assert (candidate["finishReason"], heard.objects[0]["modelVersion"]) == ("STOP", "tuned/m-1")


def test_the_finish_reasons_are_its_own_words(host: Host) -> None:
    """Any other is said as it is."""
    url = host.gemini("ok,length,ok:finish=content_filter,ok:finish=RECITATION")
    heard = [hear(url, "gemini", stream=False).objects[0]["candidates"][0]["finishReason"] for _ in range(4)]
    assert heard == ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION"]


def test_an_error_has_all_its_details(host: Host) -> None:
    """No header tells when to come back: that stands in the body, as does which quota was met."""
    script = "status:429:retry-delay=46s:quota=RequestsPerDay:code=RATE_LIMIT_EXCEEDED:param=model:message=Wait"
    error = hear(host.gemini(script), "gemini", stream=True).error
    assert (error["code"], error["status"], error["message"]) == (429, "RESOURCE_EXHAUSTED", "Wait")
    found = {detail["@type"].rpartition(".")[2]: detail for detail in error["details"]}
    assert found["RetryInfo"]["retryDelay"] == "46s"
    assert found["QuotaFailure"]["violations"][0]["quotaId"] == "RequestsPerDay"
    assert found["ErrorInfo"]["reason"] == "RATE_LIMIT_EXCEEDED"
    assert found["BadRequest"]["fieldViolations"][0]["field"] == "model"


def test_a_blocked_question_has_a_reason_and_no_candidate(host: Host) -> None:
    """All of it with status 200."""
    for stream in (True, False):
        (answer,) = hear(host.gemini("empty-candidates:block=SAFETY"), "gemini", stream=stream).objects
        assert answer["promptFeedback"] == {"blockReason": "SAFETY"}
        assert "candidates" not in answer
