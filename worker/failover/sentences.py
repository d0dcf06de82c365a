"""The words and sentences by which hosts say what is wrong: patterns for the fault table.

`_CODES` are compared with a whole code, the others are searched in the text. `^` is the start of one message of the
body: there, behind the name of an exception, a host speaks for itself; further on it may repeat the prompt.
"""

from __future__ import annotations

_START = (
    r"^(?:[\w.]{0,80}(?:Error|Exception)\b[: -]{1,3}|Invalid JSON payload received\. |Bad request: |Invalid request: "
    r"|Error code: \d{3} - \{'error': \{'message': [\"']"
    r"|Failed to deserialize the JSON body into the target type: |Unable to submit request because (?:the )?)*"
)
_NAME = r"[\"'`]?[\w.\[\]-]{1,80}[\"'`]?"

NO_MONEY_CODES = (
    r"insufficient_(?:quota|balance|credits?|funds)|credit_balance_\w+|billing_\w+|account_deactivated"
    r"|(?:\w+_)?(?:spend|usage)_limit_(?:exceeded|reached)|linked_organization_\w+|organization_on_hold"
    r"|exceeded_current_quota_error|Arrearage"
)
NO_MONEY = (
    rf"{_START}(?:You have reached your specified (?:\w+ )?API usage limits|Your credit balance is too low"
    r"|Insufficient Balance\b)"
)

NO_ACCESS_CODES = (
    r"API_KEY_\w+|invalid_api_key|ACCESS_TOKEN_\w+|SERVICE_DISABLED|CONSUMER_\w+|USER_PROJECT_DENIED"
    r"|FAILED_PRECONDITION|authentication_error|UNAUTHENTICATED|unsupported_country_region_territory"
)
NO_ACCESS = rf"{_START}(?:API key (?:not valid|expired|not found)|Incorrect API key provided)\b"

TOO_LONG_CODES = (
    r"context_length_exceeded|exceed_context_size_error|model_context_window_exceeded|string_above_max_length"
    r"|tokens_limit_reached|request_too_large|prompt_too_long"
)
TOO_LONG = (
    rf"{_START}(?:(?:your |the )?(?:prompt|input) is too long\b|prompt contains \d+ tokens"
    r"|(?:This|The|That) (?:model|endpoint)(?:'s)? maximum (?:context|prompt) length is \d"
    r"|input length and [\"'`]?max_tokens[\"'`]? exceed context limit"
    r"|(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size"
    r"|(?:the )?input token count .{0,40}?(?:exceeds the maximum number of tokens|but (?:the )?model only supports)"
    r"|the (?:prompt|input) is longer than the context length|the input length exceeds the context length"
    r"|The (?:decoder )?(?:prompt|input) \([^)]{1,60}\) is (?:too long|longer than)"
    r"|You passed \d+ input tokens|Requested token count exceeds"
    rf"|{_NAME}(?: or {_NAME})? is too large: \d"
    r"|Request too large for |Request payload size exceeds the limit|Input is too long for requested model"
    r"|Range of input length should be |Your request exceeded model token limit|too many tokens: "
    rf"|(?:{_NAME}: )?image exceeds \d+ MB maximum"
    r"|Input validation error: [\"'`]inputs[\"'`] tokens \+ )"
)

FILTERED_CODES = (
    r"content_?filter|content_policy_violation|ResponsibleAIPolicyViolation|moderation(?:_blocked)?"
    r"|data_?inspection_?failed|cyber_policy_violation"
)
FILTERED = (
    rf"{_START}(?:(?:Invalid prompt: )?your prompt was flagged as potentially violating our usage policy"
    r"|The response was filtered due to|Your request was rejected (?:as a result of|by) our safety system"
    r"|Output blocked by content filtering policy|Content Exists Risk|Input data may contain inappropriate content"
    r"|The prompt could not be submitted\. This prompt contains)"
)

INCAPABLE = (
    rf"{_START}(?:No endpoints found (?:that|which) |\S{{1,200}} does not support (?:chat|insert|completion)\b"
    r"|This model does not support assistant message prefill|Developer instruction is not enabled for "
    r"|Invalid schema for response_format|output_(?:config\.)?format\.schema\b|The specified schema produces a "
    r"|Invalid content type\. image_url is only supported by|At most 0 image|\S{1,200} is not a multimodal model"
    r"|image input is not supported|this model (?:is missing data required for|does not support) image"
    r"|max_tokens: \d+ > \d+, which is the maximum allowed)"
)

NO_MODEL_CODES = (
    r"model_not_found|model_decommissioned|model_(?:not_available|deprecated|archived|not_supported)|invalid_model"
    r"|unknown_model|deployment_?not_?found"
)
NO_MODEL = (
    rf"{_START}(?:model is required\b|invalid model name\b|Invalid model: |Model Not Exist\b|No endpoints? found for "
    rf"|The (?:requested )?model {_NAME} (?:does not exist|was not found|has been)|model {_NAME} not found"
    r"|\S{1,200} is not a valid model ID)"
)

REJECTED_CODES = (
    r"unsupported_(?:parameter|value)|unknown_parameter|unrecognized_(?:parameter|argument)|extra_forbidden"
    r"|value_error\.extra"
)
_SUBJECT = (
    r"(?:(?:the|parameter|property|argument|field|option|thinking|think|reasoning|effort|level|budget|mode|value|type"
    rf"|adaptive|extended|structured|json) ){{0,5}}(?!models?\b){_NAME}(?:,? (?:and|or) {_NAME})?(?: of type {_NAME})?"
)
_FORBIDDEN = (
    r"(?:is|are) (?:not (?:yet |currently )?(?:supported|enabled|permitted|allowed)|no longer supported|unsupported"
    r"|deprecated|only (?:supported|enabled))\b"
)
REJECTED = (
    rf"{_START}(?:(?:Unknown|Unsupported|Unrecognized|Unexpected) (?:request |keyword )?"
    r"(?:parameter|argument|field|name|property|key|option|value)s?\b(?: supplied)?:? [\"'`\w]"
    rf"|(?:{_NAME}(?:: | -> |, )){{0,6}}Extra (?:inputs|fields) (?:are )?not permitted"
    r"|\[\{'type': 'extra_forbidden'"
    rf"|(?:Invalid parameter: )?{_SUBJECT} {_FORBIDDEN}"
    r"|(?:[^:\n\"'`]|[\"'`][\w.\[\]-]{1,60}[\"'`]){1,80}? (?:is|are) not supported (?:for|with|by|on) (?:this|the) "
    r"(?:\S{1,40} )?model"
    r"|\S{1,200} does not support (?:thinking|tools|vision)\b"
    rf"|{_NAME} does not support {_NAME} with this model"
    r"|(?:(?:the|this|your|selected) )*model(?: \S{1,80})? (?:does not|doesn't|do not) (?:support|accept|allow) "
    rf"|Argument not supported on this model|{_NAME} and {_NAME} cannot (?:both )?be (?:specified|set|used)"
    r"|You can only set (?:only )?one of thinking"
    r"|(?:the )?(?:thinking[ _]?(?:budget|level|config)|budget \S{1,20} is invalid)\b"
    r"|thinking (?:cannot|can not|can't) be (?:disabled|turned off)|reasoning is (?:mandatory|required)\b"
    r"|[\"'`]?(?:thinking\.(?:type|disabled|adaptive|between_tools)|output_config\.effort|reasoning[_.]effort)\b"
    r"|Invalid value: [\"'`](?:none|minimal|low|medium|high|xhigh|max)[\"'`]\. Supported values are"
    rf"|(?:{_NAME}: )?unknown field\b|This response_format type is unavailable)"
)

THROTTLED_CODES = (
    r"rate_limit_(?:error|exceeded|reached)|slow_down|ramp_limit_exceeded|too_?many_?requests|throttl(?:ed|ing)\w*"
)
THROTTLED = r"^server busy, please try again\.\s+maximum pending requests exceeded"

OVERLOADED_CODES = (
    r"overloaded(?:_error)?|(?:server|provider|engine|model)_(?:is_)?overloaded(?:_error)?|UNAVAILABLE"
    r"|service_?unavailable(?:_?error)?"
)

OLLAMA_WRONG = r"^(?:invalid format\b|option \"[^\"]{1,80}\" must be of type )"

NO_PLACE = r"^(?:Invalid URL\b|(?:404 page |Resource |Page )?not found\.?$)"
