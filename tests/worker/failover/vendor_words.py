"""The vendors' codes and sentences, and what each is worth in a 400 of OpenAI's shape, as gateways pass them on.

What else a body of theirs holds is left out: a code or a sentence must be enough on its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from worker.failover.attempt import Reason
from worker.failover.verdict import FaultClass

CLASSES: Mapping[Reason, FaultClass] = {
    **dict.fromkeys((Reason.QUOTA, Reason.AUTH, Reason.MODEL_MISSING, Reason.MISROUTED), FaultClass.PERMANENT),
    **dict.fromkeys((Reason.TOO_LONG, Reason.FILTERED, Reason.CAPABILITY), FaultClass.NO_FIT),
    Reason.UNSUPPORTED: FaultClass.REJECTED,
    Reason.BAD_REQUEST: FaultClass.CALLER,
    Reason.THROTTLED: FaultClass.THROTTLED,
    **dict.fromkeys((Reason.OVERLOADED, Reason.SERVER_ERROR), FaultClass.TRANSIENT),
    Reason.MALFORMED: FaultClass.BAD_OUTPUT,
}
"""What kind of fault each of these is."""

CODES: Mapping[Reason, str] = {
    Reason.QUOTA: """
        insufficient_quota insufficient_balance insufficient_credits insufficient_funds credit_balance_exhausted
        billing_not_active project_spend_limit_exceeded organization_usage_limit_exceeded account_deactivated
        organization_on_hold exceeded_current_quota_error Arrearage budget_exceeded blocked_api_access
    """,
    Reason.AUTH: """
        invalid_api_key API_KEY_INVALID invalid_authentication_error UNAUTHENTICATED FAILED_PRECONDITION
        organization_restricted model_terms_required
    """,
    Reason.TOO_LONG: """
        context_length_exceeded exceed_context_size_error context_window_exceeded string_above_max_length
        request_too_large
    """,
    Reason.FILTERED: """
        content_filter contentFilter content_policy_violation ResponsibleAIPolicyViolation moderation_blocked
        data_inspection_failed DataInspectionFailed InputTextSensitiveContentDetected
    """,
    Reason.CAPABILITY: """
        invalid_json_schema array_above_max_length array_below_min_length decimal_above_max_value
        decimal_below_min_value
    """,
    Reason.MODEL_MISSING: """
        model_not_found model_not_supported model_decommissioned invalid_model unknown_model DeploymentNotFound
        OperationNotSupported
    """,
    Reason.MISROUTED: "UnsupportedApiVersion",
    Reason.MALFORMED: "json_validate_failed tool_use_failed output_parse_failed",
    Reason.THROTTLED: "rate_limit_exceeded",
    Reason.OVERLOADED: "overloaded_error",
    Reason.UNSUPPORTED: "unsupported_parameter unsupported_value unknown_parameter",
}

SENTENCES: Mapping[Reason, list[str]] = {
    Reason.QUOTA: [
        "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
        "You have reached your specified workspace API usage limits. You will regain access on 2026-12-01.",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
        "litellm.BadRequestError: DeepseekException - Insufficient Balance",
        "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0",
        "litellm.BudgetExceededError: Current cost: 10.1",
        "Your team x has either used all available credits or reached its monthly limit.",
        "Your team x has reached its monthly spending limit.",
        "Your project has exceeded its monthly spending cap. Please go to AI Studio to raise it.",
        "Error code: 402 - {'error': {'message': 'Insufficient Balance', 'type': 'unknown_error', 'param': None}}",
    ],
    Reason.AUTH: [
        "API key not valid. Please pass a valid API key.",
        "API Key not found. Please pass a valid API key.",
        "Incorrect API key provided: x. You can obtain an API key from https://console.x.ai.",
        "litellm.AuthenticationError: OpenAIException - no",
        "Authentication Error, Invalid proxy server token passed.",
        "Authentication Fails (no such user)",
        "Unable to authenticate request",
        "This organization has been disabled.",
        "Your account is suspended, please contact us",
        "Your project has been temporarily restricted.",
    ],
    Reason.TOO_LONG: [
        "prompt is too long: 215000 tokens > 200000 maximum",
        "Input is too long for requested model.",
        'litellm.BadRequestError: AnthropicException - {"type":"error","error":{"type":"invalid_request_error",'
        '"message":"prompt is too long: 215000 tokens > 200000 maximum"}}',
        'litellm.BadRequestError: VertexAIException BadRequestError - b\'{ "error": { "code": 400, "message": "The '
        'input token count (12) exceeds the maximum number of tokens allowed (8).", "status": "INVALID_ARGUMENT" } }',
        "litellm.BadRequestError: AnthropicException - prompt is too long: 215000 tokens > 200000 maximum",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 4096.",
        "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.",
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.",
        "This model's maximum context length is 4096 tokens. However, you requested 9000",
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 50000 tokens.",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or",
        "Range of input length should be [1, 30720]",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "You passed 5001 input tokens and requested 100 output tokens. However, the model's context length is only 9",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
        "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Unable to submit request because the input token count is 1200000 but model only supports up to 1048576.",
        "Invalid request: Your request exceeded model token limit: 8192",
        "Request payload size exceeds the limit: 20971520 bytes.",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "litellm.ContextWindowExceededError: litellm.BadRequestError: GroqException - no",
        "litellm.ContextWindowExceededError: AzureException - no",
        "litellm.BadRequestError: GroqException - the prompt has too many tokens",
        "The long context beta is not yet available for this subscription.",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
        "Requested generation length 5000 is not possible! The provided prompt is 4000 tokens, so generating 5000 "
        "tokens requires a sequence length of 9000, but the maximum supported sequence length is just 8192!",
        "Total tokens of image and text exceed max message tokens.",
        "max_tokens must be at least 1, got -905.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 2000",
    ],
    Reason.FILTERED: [
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "Your request was rejected as a result of our safety system.",
        "Output blocked by content filtering policy",
        "Content Exists Risk",
        "litellm.ContentPolicyViolationError: litellm.BadRequestError: AzureException - The response was filtered",
        "litellm.ContentPolicyViolationError: AzureException - no",
        "The request failed because the input text may contain sensitive information.",
        "Unable to submit request because The prompt could not be submitted. This prompt contains sensitive words",
    ],
    Reason.CAPABILITY: [
        "No endpoints found that can handle the requested parameters.",
        '"nomic-embed-text" does not support chat',
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Invalid schema for response_format 'answer': 'additionalProperties' is required to be supplied and false.",
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
        "output_format.schema: Enum value 3 does not match declared type 'string'",
        "The specified schema produces a constraint that has too many states for serving.",
        "* GenerateContentRequest.generation_config.response_schema.properties: should be non-empty for OBJECT type",
        "Invalid value at 'generation_config.response_schema.type' (type.googleapis.com/google.ai.Type), \"null\"",
        "Invalid JSON payload received. Unknown name \"$ref\" at 'generation_config.response_schema.items': Cannot",
        "* GenerateContentRequest.generation_config.response_json_schema: too deep",
        "Invalid content type. image_url is only supported by certain models.",
        "At most 0 image(s) may be provided in one request.",
        "google/gemma-2-9b is not a multimodal model",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "this model is missing data required for image input",
        "Failed to deserialize the JSON body into the target type: messages[7]: unknown variant `image_url`, expected "
        "`text` at line 1 column 114708",
        "Failed to deserialize the JSON body into the target type: response_format.type: unknown variant "
        "`json_schema`, expected one of `text`, `json_object`",
        "Failed to deserialize the JSON body into the target type: messages[2]: data did not match any variant of "
        "untagged enum ChatCompletionRequestContent at line 1 column 18254",
        "Failed to deserialize the JSON body into the target type: messages[2]: invalid type: sequence, expected a "
        "string at line 1 column 2901",
        "Failed to parse grammar",
        "max_completion_tokens must be less than or equal to 8192",
        "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for it",
        "max_tokens: Input should be less than or equal to 8192",
        "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1",
        "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
    ],
    Reason.MODEL_MISSING: [
        "model is required",
        "invalid model name",
        "Invalid model: mistral-huge",
        "Model Not Exist",
        "No endpoints found for meta/llama-9.",
        "The requested model 'gpt-9' does not exist.",
        "model 'x' not found",
        "The model `llama3-70b-8192` has been decommissioned and is no longer supported.",
        "The requested model 'foo/bar' is not supported by any provider you have enabled.",
        "foo/bar is not a valid model ID",
        "/chat/completions: Invalid model name passed in model=gpt-x. Call `/v1/models` to view available models",
        "{'error': '/chat/completions: Invalid model name passed in model=gpt-x. Call `/v1/models` to view available'}",
        "litellm.NotFoundError: OpenAIException - no",
        "The provided model identifier is invalid.",
        "Invocation of model ID x with on-demand throughput isn't supported. Retry your request",
        "No models loaded. Please load a model in the developer page or use the `lms load` command.",
        "Model unloaded.",
        "Model does not exist. Please check it carefully.",
        "[address=0.0.0.0:36423, pid=3] Model not found in the model list, uid: x",
        "No such model @cf/x or task",
    ],
    Reason.MISROUTED: [
        "anthropic-version: 2099-01-01 is not a valid version",
        "Unexpected value(s) `x` for the `anthropic-beta` header.",
        "API version not supported",
        "Please configure AI Gateway in the Cloudflare dashboard",
        "Either x-portkey-config or x-portkey-provider header is required",
        "Streaming is required for operations that may take longer than 10 minutes.",
        "<400> InternalError.Algo.InvalidParameter: This model only support stream mode, please enable the stream",
        "parameter.enable_thinking must be set to false for non-streaming calls",
    ],
    Reason.SERVER_ERROR: [
        "The model has crashed without additional information. (Exit code: 18446744072635810000)",
        "litellm.InternalServerError: OpenAIException - no",
        "litellm.APIConnectionError: no",
    ],
    Reason.THROTTLED: ["litellm.RateLimitError: GroqException - no"],
    Reason.UNSUPPORTED: [
        "Unsupported parameter: 'stop' is not supported with this model.",
        "Unsupported value: 'seed' does not support 2 with this model.",
        "Unknown parameter: 'x'.",
        "Unrecognized request argument supplied: seed",
        "Unrecognized request arguments supplied: seed, top_k",
        "Unrecognized key(s) in object: 'seed'",
        "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field.",
        "Failed to deserialize the JSON body into the target type: unknown field `seed`, expected one of `model`",
        'json: unknown field "seed"',
        "temperature: Extra inputs are not permitted",
        "Extra inputs are not permitted",
        "seed: extra fields not permitted",
        "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 1}]",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "property 'seed' is unsupported",
        "body.seed: property 'body.seed' is unsupported",
        "Malformed input request: #: extraneous key [seed] is not permitted, please reformat your input and try again.",
        "Malformed input request: #/tools/0: extraneous key [seed] is not permitted, please reformat your input",
        "Argument not supported on this model: presencePenalty",
        "`temperature` is deprecated for this model.",
        "`temperature` is no longer supported for this model.",
        '"thinking.type.disabled" is not supported for this model. Use "thinking.type.between_tools".',
        "Thinking level MINIMAL is not supported for this model.",
        "Unable to submit request because Thinking_config.include_thoughts is only enabled when thinking is enabled.",
        "Penalty is not enabled for this model",
        "Property seed is not permitted",
        "Additional properties are not allowed ('seed' was unexpected)",
        "'logprobs' and 'top_logprobs' are not currently supported with this model",
        "Model grok-4 does not support parameter presencePenalty.",
        "This model does not support the effort parameter.",
        '"m" does not support thinking',
        "registry.ollama.ai/library/m does not support vision",
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "You can only set only one of thinking budget and thinking level.",
        "The thinking budget 0 is invalid. Please choose a value between 128 and 32768.",
        "Budget 0 is invalid. This model only works in thinking mode.",
        "Reasoning is mandatory for this endpoint and cannot be disabled.",
        "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'enabled'",
        "thinking.type: adaptive thinking is not supported on this model",
        "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation",
        "`reasoning_effort` must be one of `none` or `default`",
        "output_config.effort: Input should be 'low', 'medium' or 'high'",
        "reasoning_effort: Input should be 'low', 'medium' or 'high'",
        "Invalid value: 'none'. Supported values are: 'low' and 'high'.",
        "Failed to deserialize the JSON body into the target type: This response_format type is unavailable now",
    ],
    Reason.BAD_REQUEST: [
        "messages: at least one message is required",
        "messages: Input should be a valid list",
        "messages.0.content: Field required",
        "messages[0].role: unknown variant `boss`, expected one of `system`, `user`",
        "messages: text content blocks must be non-empty",
        "temperature must be between 0 and 2",
        "temperature: Input should be less than or equal to 1",
        "max_tokens must be at least 1",
        "Invalid value for 'stop'",
        "Invalid value: 'boss'. Supported values are: 'system', 'assistant', 'user', and 'tool'.",
        "Invalid prompt: messages must not be empty",
        "contents is not specified",
        "Invalid params",
        'invalid think value: "huge"',
        "Refused",
    ],
}
