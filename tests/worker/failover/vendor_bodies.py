"""Errors as the vendors write them, and what each is worth: the classification table by example."""

from __future__ import annotations

import json
from typing import Any

from tests.worker.failover.vendor_words import CLASSES, CODES, SENTENCES
from worker.failover.attempt import Reason
from worker.failover.provider import Fault, Kind
from worker.failover.verdict import FaultClass
from worker.providers.replies import failed, said


def openai(message: str, code: str | None = None, kind: str | None = "invalid_request_error", param: Any = None) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def anthropic(kind: str, message: str, error_code: str | None = None) -> str:
    details = {"details": {"error_code": error_code}} if error_code else {}
    return json.dumps({"type": "error", "error": {"type": kind, "message": message, **details}, "request_id": "req_1"})


def gemini(code: int, status: str, message: str, *details: Any) -> str:
    return json.dumps([{"error": {"code": code, "message": message, "status": status, "details": list(details)}}])


def router(code: int, message: str, **metadata: Any) -> str:
    return json.dumps({"error": {"code": code, "message": message, "metadata": metadata}})


def ollama(message: str) -> str:
    return json.dumps({"error": message})


def info(reason: str) -> Any:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}


def delay(text: str) -> Any:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": text}


def quota(quota_id: str, value: str = "50") -> Any:
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaMetric": "requests", "quotaId": quota_id, "quotaValue": value}],
    }


PAGE = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"
LLAMA = '{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000}}'  # fmt: skip  # noqa: E501
AZURE = '{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI\'s content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}'  # fmt: skip  # noqa: E501
LIMIT_ZERO = "You exceeded your current quota, please check your plan.\n* Quota exceeded for metric: generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro\nPlease retry in 46s."  # fmt: skip  # noqa: E501
PER_MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PYDANTIC = {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
MISSING = {"detail": [{"type": "missing", "loc": ["body", "messages", 0, "content"], "msg": "Field required"}]}
MISTRAL = {"object": "error", "message": PYDANTIC, "type": "invalid_request_error", "param": None, "code": None}
VLLM = {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}

P, C, N, R = FaultClass.PERMANENT, FaultClass.CALLER, FaultClass.NO_FIT, FaultClass.REJECTED
T, H, B = FaultClass.TRANSIENT, FaultClass.THROTTLED, FaultClass.BAD_OUTPUT

TABLE: list[tuple[str, int, str, Reason, FaultClass]] = [
    # Money
    *(
        ("openai", 429, openai("You exceeded your current quota", code, "insufficient_quota"), Reason.QUOTA, P)
        for code in (
            *("insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", None),
            *("project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_hard_limit_reached"),
        )
    ),
    ("openai", 403, openai("not active", "billing_not_active"), Reason.QUOTA, P),
    ("openai", 400, openai("deactivated", "account_deactivated"), Reason.QUOTA, P),
    *(
        ("anthropic", 429, anthropic("rate_limit_error", "Limit reached", code), Reason.QUOTA, P)
        for code in (
            *("enforced_spend_limit_reached", "contract_spend_limit_reached", "organization_on_hold"),
            *("linked_organization_spend_limit_reached", "linked_organization_billing_unavailable"),
        )
    ),
    ("anthropic", 402, anthropic("billing_error", "pay"), Reason.QUOTA, P),
    ("openai", 402, openai("Insufficient Balance", "invalid_request_error", "unknown_error"), Reason.QUOTA, P),
    ("openai", 402, router(402, "Insufficient credits"), Reason.QUOTA, P),
    ("openai", 402, router(402, "wait", limit_source="openrouter_in_flight_budget"), Reason.THROTTLED, H),
    ("gemini", 402, gemini(402, "RESOURCE_EXHAUSTED", "prepaid credit is empty"), Reason.QUOTA, P),
    ("openai", 402, "", Reason.QUOTA, P),
    ("openai", 429, '{"code":"Some resource has been exhausted","error":"Your team x has either used all available '
     'credits or reached its monthly spending limit. To continue, please purchase more."}', Reason.QUOTA, P),
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap. Please go to"
                           " AI Studio."), Reason.QUOTA, P),
    # Keys and permissions
    ("gemini", 400, gemini(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID")), Reason.AUTH, P),
    ("openai", 400, gemini(400, "INVALID_ARGUMENT", "API key expired. Please renew it."), Reason.AUTH, P),
    ("gemini", 403, gemini(403, "PERMISSION_DENIED", "not used yet", info("SERVICE_DISABLED")), Reason.AUTH, P),
    ("gemini", 403, gemini(403, "PERMISSION_DENIED", "enable billing", info("BILLING_DISABLED")), Reason.QUOTA, P),
    ("gemini", 400, gemini(400, "FAILED_PRECONDITION", "User location is not supported."), Reason.AUTH, P),
    ("openai", 400, '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x"}',
     Reason.AUTH, P),
    *(("openai", 401, body, Reason.AUTH, P) for body in (openai("no", "invalid_api_key"), "", PAGE, router(500, "x"))),
    ("ollama", 401, '{"error":"unauthorized","signin_url":"https://ollama.com/connect"}', Reason.AUTH, P),
    ("ollama", 403, "", Reason.AUTH, P),
    ("openai", 403, openai("Country not supported", "unsupported_country_region_territory"), Reason.AUTH, P),
    ("anthropic", 403, anthropic("permission_error", "no permission"), Reason.AUTH, P),
    ("openai", 403, PAGE, Reason.AUTH, P),
    ("openai", 403, router(403, "meta/x requires moderation on Y. Your input was flagged", reasons=["violence"],
                           flagged_input="..."), Reason.FILTERED, N),
    ("openai", 403, router(403, "Request blocked by a guardrail of your organization"), Reason.FILTERED, N),
    # The model and the address
    ("openai", 404, openai("The model `gpt-9` does not exist", "model_not_found"), Reason.MODEL_MISSING, P),
    ("openai", 403, openai("Project `p` does not have access to model `m`", "model_not_found"), Reason.MODEL_MISSING,
     P),
    ("openai", 404, json.dumps(VLLM), Reason.MODEL_MISSING, P),
    ("anthropic", 404, anthropic("not_found_error", "model: claude-0"), Reason.MODEL_MISSING, P),
    ("gemini", 404, gemini(404, "NOT_FOUND", "models/x is not found for API version v1beta, or is not supported for "
                           "generateContent."), Reason.MODEL_MISSING, P),
    ("ollama", 404, ollama("model 'x' not found"), Reason.MODEL_MISSING, P),
    ("ollama", 404, ollama('model "x" not found, try pulling it first'), Reason.MODEL_MISSING, P),
    ("ollama", 400, ollama("model is required"), Reason.MODEL_MISSING, P),
    ("openai", 410, openai("This model is retired"), Reason.MODEL_MISSING, P),
    ("openai", 400, router(400, "foo/bar is not a valid model ID"), Reason.MODEL_MISSING, P),
    ("openai", 400, openai("Model Not Exist"), Reason.MODEL_MISSING, P),
    ("openai", 404, router(404, "No endpoints found that support image input"), Reason.CAPABILITY, N),
    *(("ollama", 404, body, Reason.MISROUTED, P) for body in ("404 page not found", "", PAGE, "model x not found")),
    ("openai", 404, openai("Invalid URL (POST /v1/models/chat)"), Reason.MISROUTED, P),
    ("openai", 404, '{"detail":"Not Found"}', Reason.MISROUTED, P),
    ("anthropic", 404, anthropic("not_found_error", "Not Found"), Reason.MISROUTED, P),
    *(("openai", status, "", Reason.MISROUTED, P)
      for status in (204, 202, 301, 302, 307, 405, 406, 407, 410, 415, 501, 505)),
    ("openai", 302, router(400, "x"), Reason.MISROUTED, P),
    *(("openai", status, openai('Failed to load model "x". Error: no memory'), Reason.SERVER_ERROR, T)
      for status in (400, 404, 422)),
    # Too long
    ("openai", 400, openai("This model's maximum context length is 8192 tokens.", "context_length_exceeded", param=
                           "messages"), Reason.TOO_LONG, N),
    ("openai", 400, openai("This model's maximum context length is 4096 tokens. However, you requested 9000"),
     Reason.TOO_LONG, N),
    ("anthropic", 400, anthropic("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"),
     Reason.TOO_LONG, N),
    ("anthropic", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 178959 "
                                 "+ 64000 > 200000"), Reason.TOO_LONG, N),
    ("gemini", 400, gemini(400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of "
                           "tokens allowed (1048576)."), Reason.TOO_LONG, N),
    ("ollama", 400, LLAMA, Reason.TOO_LONG, N),
    ("ollama", 400, ollama(LLAMA), Reason.TOO_LONG, N),
    ("ollama", 400, ollama("the prompt is longer than the context length currently available to the model"),
     Reason.TOO_LONG, N),
    ("openai", 400, router(400, "Provider returned error", raw=anthropic("invalid_request_error", "prompt is too long"),
                           provider_name="Anthropic"), Reason.TOO_LONG, N),
    ("openai", 422, '{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"}',
     Reason.TOO_LONG, N),
    ("openai", 429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.",
                           "rate_limit_exceeded", "tokens"), Reason.TOO_LONG, N),
    *(("anthropic", status, PAGE, Reason.TOO_LONG, N) for status in (413, 414, 431)),
    ("anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), Reason.TOO_LONG, N),
    # Content
    ("openai", 400, AZURE, Reason.FILTERED, N),
    ("openai", 400, openai("no", "content_policy_violation"), Reason.FILTERED, N),
    ("openai", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                           "invalid_prompt"), Reason.FILTERED, N),
    ("openai", 400, openai("Invalid prompt: messages must not be empty", "invalid_prompt"), Reason.BAD_REQUEST, C),
    ("openai", 451, "", Reason.FILTERED, N),
    ("openai", 400, '{"contentFilter": [{"level": 1, "role": "user"}], "error": {"code": "1301", "message": "no"}}',
     Reason.FILTERED, N),
    # Parameters
    *(
        ("openai", 400, openai(message, code, param=param), Reason.UNSUPPORTED, R)
        for message, code, param in (
            ("Unsupported parameter: 'stop' is not supported with this model.", "unsupported_parameter", "stop"),
            ("Invalid value: 'none'. Supported values are: 'low' and 'high'.", "invalid_value", "reasoning_effort"),
        )
    ),
    ("openai", 422, json.dumps(PYDANTIC), Reason.UNSUPPORTED, R),
    ("openai", 422, json.dumps(MISTRAL), Reason.UNSUPPORTED, R),
    *(("ollama", 400, ollama(f'"m" does not support {what}'), Reason.UNSUPPORTED, R) for what in ("thinking", "tools")),
    ("ollama", 400, ollama("registry.ollama.ai/library/m does not support vision"), Reason.UNSUPPORTED, R),
    ("ollama", 400, ollama('"nomic-embed-text" does not support chat'), Reason.CAPABILITY, N),
    # The caller's own
    ("openai", 400, openai("messages: too few", param="messages"), Reason.BAD_REQUEST, C),
    ("anthropic", 400, anthropic("invalid_request_error", "messages: at least one message is required"),
     Reason.BAD_REQUEST, C),
    ("gemini", 400, gemini(400, "INVALID_ARGUMENT", "contents is not specified"), Reason.BAD_REQUEST, C),
    ("openai", 422, json.dumps(MISSING), Reason.BAD_REQUEST, C),
    ("openai", 422, openai("Invalid params"), Reason.BAD_REQUEST, C),
    ("ollama", 400, ollama("invalid think value: \"huge\""), Reason.BAD_REQUEST, C),
    ("ollama", 500, ollama("invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object"),
     Reason.BAD_REQUEST, C),
    ("ollama", 500, ollama('option "temperature" must be of type float32'), Reason.BAD_REQUEST, C),
    ("openai", 500, ollama("invalid format: x"), Reason.SERVER_ERROR, T),
    # Limits and capacity
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", "Quota exceeded", quota(PER_DAY), delay("46s")), Reason.QUOTA, P),
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", LIMIT_ZERO, quota(PER_MINUTE), delay("46s")), Reason.QUOTA, P),
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", "no", quota(PER_MINUTE, "0"), delay("46s")), Reason.QUOTA, P),
    ("openai", 429, gemini(429, "RESOURCE_EXHAUSTED", "Please retry in 10h17m5.7s."), Reason.QUOTA, P),
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", "no", delay("601s")), Reason.QUOTA, P),
    ("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", "no", quota(PER_MINUTE), delay("46s")), Reason.THROTTLED, H),
    ("openai", 429, openai("Rate limit reached. Please try again in 20ms.", "rate_limit_exceeded", "requests"),
     Reason.THROTTLED, H),
    *(("openai", 429, body, Reason.THROTTLED, H)
      for body in ("", '{"message": "Too many tokens, please wait before trying again."}')),
    ("openai", 429, PAGE, Reason.THROTTLED, H),
    ("openai", 429, router(400, "x"), Reason.THROTTLED, H),
    ("anthropic", 429, anthropic("rate_limit_error", "slow", "ramp_limit_exceeded"), Reason.THROTTLED, H),
    ("openai", 503, openai("Slow down", "slow_down", "service_unavailable_error"), Reason.THROTTLED, H),
    ("ollama", 503, ollama("server busy, please try again.  maximum pending requests exceeded"), Reason.THROTTLED, H),
    *(("ollama", 503, ollama(message), Reason.THROTTLED, H) for message in
      ("Server is busy", "maximum pending requests exceeded", "queue full", "the request queue is full, try again")),
    ("ollama", 503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', Reason.THROTTLED, H),
    *(("ollama", 503, body, Reason.OVERLOADED, T) for body in
      ("", PAGE, "queue full", ollama("no healthy upstream"), ollama('cannot serve "queue full"'))),
    ("openai", 503, openai("server busy, please try again.  maximum pending requests exceeded"), Reason.THROTTLED, H),
    ("openai", 503, ollama("queue full"), Reason.OVERLOADED, T),
    ("openai", 503, openai("busy", "server_is_overloaded", "service_unavailable_error"), Reason.OVERLOADED, T),
    ("anthropic", 529, anthropic("overloaded_error", "Overloaded"), Reason.OVERLOADED, T),
    ("gemini", 503, gemini(503, "UNAVAILABLE", "The model is overloaded."), Reason.OVERLOADED, T),
    ("openai", 529, router(529, "Provider overloaded"), Reason.OVERLOADED, T),
    ("openai", 503, PAGE, Reason.OVERLOADED, T),
    # The host's own
    *(("openai", status, body, Reason.SERVER_ERROR, T) for body in ("", PAGE) for status in
      (*(500, 502, 504, 507, 520, 521, 522, 523, 524, 525, 526, 527, 530, 599), *(408, 409, 425, 499, 418, 423, 424))),
    ("openai", 502, router(502, "Bad gateway"), Reason.SERVER_ERROR, T),
    ("openai", 500, openai("x", None, "invalid_request_error"), Reason.SERVER_ERROR, T),
    ("openai", 500, router(400, "x"), Reason.SERVER_ERROR, T),
    ("openai", 400, router(502, "Provider returned error"), Reason.SERVER_ERROR, T),
    ("openai", 502, router(429, "Rate limited upstream"), Reason.THROTTLED, H),
    ("anthropic", 500, anthropic("api_error", "Internal server error"), Reason.SERVER_ERROR, T),
    ("anthropic", 504, anthropic("timeout_error", "Timed out"), Reason.SERVER_ERROR, T),
    ("gemini", 500, gemini(500, "INTERNAL", "An internal error has occurred."), Reason.SERVER_ERROR, T),
    ("gemini", 504, gemini(504, "DEADLINE_EXCEEDED", "Deadline expired"), Reason.SERVER_ERROR, T),
    *(
        ("ollama", 500, ollama(message), Reason.SERVER_ERROR, T)
        for message in (
            "llama-server process has terminated: signal: killed",
            "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error",
            "llama runner process has terminated: CUDA error: out of memory",
            "cudaMalloc failed: out of memory",
            "llama-server process has terminated: exit status 1: unable to allocate CUDA0 buffer",
            "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache",
            "model requires more system memory (5.6 GiB) than is available (3.2 GiB)",
            "model failed to load, this may be due to resource limitations or an internal error",
            "llama-server no longer running: -1",
            "an error was encountered while running the model: unexpected EOF",
            "no slots available after 10 retries",
            "timed out waiting for llama-server to start - progress 0.00",
            "unexpected EOF",
        )
    ),
    ("ollama", 500, ollama("prediction aborted, token repeat limit reached"), Reason.DEGENERATE, B),
    *(("openai", status, body, Reason.SERVER_ERROR, T) for status in (400, 422)
      for body in ("", PAGE, "Bad Request", "{", "{}", "[]", '{"foo": "bar"}', "null", '{"error": {}}')),
    *(
        ("openai", 400, openai("no", code), reason, CLASSES[reason])
        for reason, codes in CODES.items()
        for code in codes.split()
    ),
    *(
        ("openai", 400, openai(sentence), reason, CLASSES[reason])
        for reason, sentences in SENTENCES.items()
        for sentence in sentences
    ),
]  # fmt: skip

STREAMED: list[tuple[str, Reason, FaultClass]] = [
    (anthropic("overloaded_error", "Overloaded"), Reason.OVERLOADED, T),
    (anthropic("api_error", "Internal server error"), Reason.SERVER_ERROR, T),
    (anthropic("rate_limit_error", "slow"), Reason.THROTTLED, H),
    (anthropic("invalid_request_error", "messages: too few"), Reason.BAD_REQUEST, C),
    (anthropic("authentication_error", "no"), Reason.AUTH, P),
    (anthropic("permission_error", "no"), Reason.AUTH, P),
    (anthropic("not_found_error", "model: x"), Reason.MODEL_MISSING, P),
    (anthropic("request_too_large", "no"), Reason.TOO_LONG, N),
    (openai("gone", "insufficient_quota", "insufficient_quota"), Reason.QUOTA, P),
    (openai("slow", "rate_limit_exceeded", "tokens"), Reason.THROTTLED, H),
    (openai("The server had an error", None, "server_error"), Reason.SERVER_ERROR, T),
    (router(400, "wrong"), Reason.BAD_REQUEST, C),
    (router(429, "slow"), Reason.THROTTLED, H),
    (router(402, "pay"), Reason.QUOTA, P),
    (router(502, "Provider returned error"), Reason.SERVER_ERROR, T),
    (router(503, "no provider"), Reason.OVERLOADED, T),
    (json.dumps({"error": {"message": "Token limit exceeded", "code": "stream_error"}}), Reason.SERVER_ERROR, T),
    (ollama("an error was encountered while running the model: unexpected EOF"), Reason.SERVER_ERROR, T),
    (ollama(LLAMA), Reason.TOO_LONG, N),
    (gemini(503, "UNAVAILABLE", "busy"), Reason.OVERLOADED, T),
    (json.dumps({"error": {"status": "INVALID_ARGUMENT", "message": "no"}}), Reason.BAD_REQUEST, C),
    (json.dumps({"error": {"status": "RESOURCE_EXHAUSTED", "message": "no"}}), Reason.THROTTLED, H),
    ("boom", Reason.SERVER_ERROR, T),
    ("", Reason.SERVER_ERROR, T),
    (PAGE, Reason.SERVER_ERROR, T),
    *((openai("no", code, None), Reason.THROTTLED, H) for code in ("too_many_requests", "Throttling.RateQuota")),
    (json.dumps({"error": {"status": "PERMISSION_DENIED", "message": "no"}}), Reason.AUTH, P),
    (json.dumps({"error": {"status": "UNAVAILABLE", "message": "no"}}), Reason.OVERLOADED, T),
    (json.dumps({"error": {"status": "UNAUTHENTICATED", "message": "no"}}), Reason.AUTH, P),
    (json.dumps({"error": {"status": "NOT_FOUND", "message": "models/x is not found"}}), Reason.MODEL_MISSING, P),
]
"""Errors in a stream, which has no status of its own."""

COME_BACK: list[tuple[int, str, Reason, FaultClass]] = [
    (503, "", Reason.OVERLOADED, H),
    (529, anthropic("overloaded_error", "Overloaded"), Reason.OVERLOADED, H),
    (402, router(402, "wait for calls under way"), Reason.THROTTLED, H),
    (402, openai("no", "insufficient_quota"), Reason.QUOTA, P),
    (429, openai("no", "rate_limit_exceeded"), Reason.THROTTLED, H),
    (500, "", Reason.SERVER_ERROR, T),
]
"""Errors of hosts that say in the head when to come back."""

ANSWERS: list[tuple[Fault, str]] = [
    *((failed(status, {}, body, 0.0), protocol) for protocol, status, body, *_ in TABLE),
    *((said(body), "openai") for body, *_ in STREAMED),
    *((failed(status, {"retry-after": "3600"}, body, 0.0), "openai") for status, body, *_ in COME_BACK),
    *((Fault(kind), "openai") for kind in Kind),
]
"""All of them, as the judge gets them, and the protocol each is spoken in."""
