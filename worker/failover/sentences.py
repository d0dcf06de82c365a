"""The words and sentences by which hosts say what is wrong: patterns for the fault table.

`_CODES` are compared with a whole code or the status, the others are searched in the text. `^` is the start of one
message of the body: there a host speaks for itself; further on it may repeat the prompt.
"""

from __future__ import annotations

START = (
    r"^(?:[\w.]{0,80}(?:Error|Exception)\b[: -]{1,3}|Invalid JSON payload received\. |Invalid (?:request|parameter): "
    r"|Error code: \d{3} - |/[\w/.-]{0,80}completions: |<\d{3}> [\w.]{1,80}: |\[address=[^\]]{1,80}\] "
    r"|b?[\"']?\{ ?(?:[\"']\w{1,40}[\"']: ?(?:[\"'][\w ]{0,60}[\"']|\w{1,40}|\{),? ?){0,8}"
    r"[\"'](?:message|error)[\"']: ?[\"']"
    r"|Malformed input request: |Unable to submit request because "
    r"|Failed to deserialize the JSON body into the target type: )*"
)
"""The start of a message, with what gateways and libraries put in front of a host's own sentence."""

NAME = r"(?:[\w.$\[\]-]{1,80}|[\"'`][\w.$\[\]-]{1,80}[\"'`])"
MODEL = r"(?:[\w./:@-]{1,200}|[\"'`][\w./:@-]{1,200}[\"'`])"
LIBRARY = r"(?:[\w.]{0,80}\.)?"
"""What stands before the name of an exception, where a gateway passes one on: `litellm.`; no part of the name."""

HOSTS_OWN = r"(?:[^:\n\"'`]|'s(?= )|[\"'`][\w.$\[\]-]{1,80}[\"'`]){0,160}?"
"""What stands between a start and a phrase: no colon and, names aside, no quotes, as there are around a prompt."""

NO_MONEY_CODES = (
    r"insufficient_(?:quota|balance|credits?|funds)|credit_balance_\w+|\w*billing_\w+|\w*(?:spend|usage)_limit_\w+"
    r"|account_deactivated|organization_on_hold|exceeded_current_quota_error|Arrearage|budget_exceeded|blocked_api_access"
)
NO_MONEY = (
    rf"{START}(?:You have reached your specified (?:\w+ )?API usage limits|Your credit balance is too low"
    r"|Insufficient Balance\b|Budget has been exceeded\b|"
    rf"{LIBRARY}BudgetExceededError\b|{HOSTS_OWN}\b(?:used all \w+ credits|spending (?:cap|limit))\b)"
)

NO_ACCESS_CODES = (
    r"\w*api_key\w*|\w*authentication_error|UNAUTHENTICATED|FAILED_PRECONDITION|organization_restricted"
    r"|model_terms_required"
)
NO_ACCESS = (
    rf"{START}(?:(?:\w+ )?API key\b|{LIBRARY}AuthenticationError\b|Authentication (?:error|fail)"
    r"|Unable to authenticate\b"
    r"|\w+ (?:organization|account|project) (?:is|has been) (?:\w+ )?(?:disabled|restricted|suspended)\b)"
)

TOO_LONG_CODES = r"\w*context_(?:length|size|window)_\w+|string_above_max_length|\w+_too_large"
TOO_LONG = (
    rf"{START}(?:{HOSTS_OWN}\b(?:too long\b|too large\b|has too many tokens\b|too many tokens: |input token count\b"
    r"|model token limit\b"
    r"|(?:context|prompt|input|model|sequence) (?:length|size|window)\b|payload size\b|max_seq_len\b"
    r"|exceeds? (?:the )?max(?:imum)? (?:\w+ )?tokens\b)"
    rf"|{LIBRARY}ContextWindowExceededError\b|The long context beta\b|max_(?:\w+_)?tokens must be at least 1, got -"
    rf"|{NAME}: image exceeds \d|Input validation error: `inputs` (?:tokens|must have less))"
)

FILTERED_CODES = (
    r"content_?filter\w*|\w*policy_?violation|moderation\w*|data_?inspection_?failed|\w*SensitiveContent\S*"
)
FILTERED = (
    rf"{START}(?:(?:Invalid prompt: )?your prompt was flagged\b|The response was filtered\b"
    r"|Your request was rejected as a result of our safety system|Output blocked by content filtering policy"
    r"|Content Exists Risk|The prompt could not be submitted"
    rf"|{LIBRARY}ContentPolicyViolationError\b|{HOSTS_OWN}\bmay contain sensitive information\b)"
)

INCAPABLE_CODES = r"invalid_json_schema|\w+_(?:above|below)_(?:max|min)\w*"
INCAPABLE = (
    rf"{START}(?:No endpoints found that |{MODEL} does not support chat\b"
    r"|This model does not support assistant message prefill|Developer instruction is not enabled for "
    r"|Invalid schema for response_format|output_(?:config\.)?format\.schema\b|The specified schema produces a "
    rf"|{HOSTS_OWN}[\"']?\bgeneration_?config\.response_?(?:json_?)?schema\b"
    r"|Invalid content type\. image_url is only supported by|At most 0 image"
    rf"|{MODEL} is not a multimodal model|image input is not supported|this model is missing data required for image"
    rf"|{NAME}: (?:unknown variant `(?:image_url|json_schema)`|data did not match any variant of untagged enum "
    r"|invalid type: sequence, expected a string)"
    r"|max_tokens: \d+ > \d+, which is the maximum allowed|Failed to parse grammar\b|it has a maxOutputTokens value of "
    r"|[\"'`]?max_(?:\w+_)?tokens[\"'`:]{0,2} (?:\w+ ){1,2}be less than or equal to )"
)

NO_MODEL_CODES = (
    r"model_(?:not_\w+|decommissioned)|(?:invalid|unknown)_model|deployment_?not_?found|OperationNotSupported"
)
NO_MODEL = (
    rf"{START}(?:model is required\b|invalid model name\b|Invalid model: |Model Not Exist\b|No endpoints? found for "
    rf"|(?:The )?(?:requested )?model (?:{MODEL} )?(?:does not exist|not found|has been|is not supported)"
    rf"|(?:The )?(?:\w+ )?model identifier is invalid\b|Invocation of model ID\b|{LIBRARY}NotFoundError\b"
    r"|No such model\b|No models? loaded\b|Model unloaded\b"
    rf"|{MODEL} is not a valid model ID)"
)

MISROUTED_CODES = r"\w*api_?version\w*"
MISROUTED = (
    rf"{START}(?:anthropic-[\w-]{{1,80}}: |API version not supported\b|Please configure \w+ Gateway\b"
    rf"|{HOSTS_OWN}[\"'`]?\w{{1,40}}-[\w-]{{1,80}}[\"'`]? header\b"
    rf"|Streaming is required\b|{HOSTS_OWN}\b(?:only supports? stream|non-streaming call))"
)

REJECTED_CODES = r"unsupported_(?:parameter|value)|unknown_parameter"
REJECTED = (
    rf"{START}(?:(?:{NAME}: )?(?:Unknown|Unsupported|Unrecognized) (?:request )?"
    r"(?:parameter|argument|field|name|key|value)"
    rf"|(?:{NAME}: )?Extra (?:inputs|fields) (?:are )?not permitted|\[\{{'type': 'extra_forbidden'"
    rf"|(?:#[\w/]{{0,80}}: )?extraneous key\b|{NAME}: property {NAME} is unsupported\b"
    rf"|(?:{NAME} ){{1,6}}?(?:unsupported|deprecated|(?:not|no longer|only) "
    r"(?:\w+ )?(?:supported|enabled|permitted|allowed))\b"
    rf"|(?:[\w-]+ ){{0,3}}?{MODEL} does not support\b"
    rf"|{NAME} and {NAME} cannot both be\b|You can only set (?:only )?one of "
    r"|(?:the )?(?:thinking )?budget \S{1,20} is invalid\b|reasoning is mandatory\b"
    rf"|[\"'`]?(?:thinking[\w.]*|output_config\.effort|reasoning_effort)(?:: |[\"'`]? must be )"
    rf"|{NAME} may only be set\b"
    r"|Invalid value: [\"'`]\w{1,20}[\"'`]\. Supported values are.{0,80}?[\"'`]high[\"'`]"
    r"|This response_format type is unavailable)"
)

THROTTLED_CODES = r"\w*rate_?limit\w*|slow_down|too_?many_?requests|throttl\S*|429"
THROTTLED = rf"{START}(?:server busy, please try again\.\s+maximum pending|{LIBRARY}RateLimitError\b)"

OLLAMA_BUSY = rf"{START}(?:{HOSTS_OWN}\b(?:busy|pending requests|queue (?:is )?full)\b|Loading model\b)"
"""Beside Ollama's own sentence: what stands in front of it says so in its own words, and llama.cpp while it loads."""

OVERLOADED_CODES = r"\w*overloaded\w*|\w*unavailable\w*|503|529"

BROKEN = (
    rf"{START}(?:The model has crashed\b|Failed to load model\b"
    rf"|{LIBRARY}(?:InternalServer|APIConnection)Error\b)"
)

SPOILED_CODES = r"json_validate_failed|tool_use_failed|output_parse_failed"

OLLAMA_WRONG = r"^(?:invalid format\b|option \"[^\"]{1,80}\" must be of type )"
