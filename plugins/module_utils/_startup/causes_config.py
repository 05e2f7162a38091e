# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes in what the user asked for: arguments, the model's path and files, tokenizer, architecture, weights."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

_ARGS_FRAMES = r"server_args\.py|arg_groups|/arg_utils\.py|engine_args|launch_server\.py:<module>"

ARGUMENTS = (
    Cause(
        id="args_unrecognized",
        meaning="An option does not exist in this version of SGLang.",
        message="SGLang does not know the option {option}.",
        patterns=(
            p(r"error: unrecognized arguments: (?P<option>\S[^\n]{0,300})"),
            p(r"error: ambiguous option: (?P<option>\S{1,80})"),
            p(r"(?:No such option|no such option): (?P<option>\S{1,80})"),
        ),
        phases=("import", "args"),
        misleading=("the usage text before it holds the words error, timeout and watchdog",),
        remedies=(
            r(
                "fix_option",
                "Remove or rename the option: options are written with dashes, and some were renamed or "
                "removed between versions.",
            ),
            r("version_with_option", "Install the SGLang version that has this option."),
        ),
        not_remedies=(
            "Upgrading helps only if the option is newer than the installed version; it may have been removed.",
        ),
        examples=(
            "usage: launch_server.py [-h] --model-path MODEL_PATH\nlaunch_server.py: error: unrecognized "
            "arguments: --enable_metrics",
        ),
        tier=3,
    ),
    Cause(
        id="args_invalid_value",
        meaning="An option is known, but not with this value.",
        message="The value of {option} is not valid: {problem}.",
        patterns=(
            p(
                r"bind on address \('(?P<value>[^']{0,60})', \d{1,5}[^)]{0,20}\): (?P<problem>cannot "
                r"assign requested address)"
            ),
            p(r"(?P<problem>\[Errno 99\] (?P<option>Cannot assign requested address))"),
            p(
                r"error: argument (?P<option>[^:\n]{1,120}): (?P<problem>invalid [^\n]{1,300}|expected "
                r"[^\n]{1,200}|ignored explicit[^\n]{1,200}|not allowed[^\n]{1,200})"
            ),
            p(r"error: (?P<problem>the following arguments are required): (?P<option>[^\n]{1,200})"),
            p(r"(?P<problem>(?P<option>--model-path) is required)"),
            p(
                r"(?:ValueError|AssertionError): (?P<problem>(?:Unknown|Invalid|Unsupported) "
                r"(?P<option>load_format|load format|attention backend|kv_cache_dtype|sampling backend|"
                r"grammar backend|schedule policy|speculative algorithm)\b[^\n]{0,200})",
                phases=("import", "args", "init_distributed", "load_weights", "kv_cache"),
            ),
            p(r"ValueError: (?P<option>load format) (?P<problem>'[^'\n]{1,60}' is not supported[^\n]{0,200})"),
            p(r"KeyError: '(?P<value>[A-Z]{4,8})'", frames=r"uvicorn/config\.py"),
            p(r"exec: (?P<option>-{1,2}\S{0,80}): (?P<problem>invalid option)"),
            p(r"(?:JSONDecodeError|ValueError: Invalid JSON).{0,200}", last=r"server_args\.py"),
            p(
                r"(?:ValueError|AssertionError): (?P<problem>(?P<option>--?[\w-]{2,60}) (?:must be|"
                r"should be|is invalid|cannot be)[^\n]{0,200})",
                frames=_ARGS_FRAMES,
            ),
        ),
        phases=("import", "args", "init_distributed", "load_weights", "kv_cache", "http", "warmup"),
        misleading=("with a wrong --log-level the warm-up thread prints connection errors first",),
        remedies=(
            r(
                "fix_value",
                "Give the option one of the values that the message lists; on Kubernetes each argument "
                "is an element of its own.",
            ),
        ),
        not_remedies=("Starting again without a change.",),
        examples=(
            "launch_server.py: error: argument --quantization: invalid choice: 'nosuch' (choose from 'awq', 'fp8')",
            "sglang serve: error: argument --mem-fraction-static: invalid float value: 'abc'",
            "sglang serve: error: the following arguments are required: --model-path/--model",
        ),
        tier=3,
    ),
    Cause(
        id="context_too_long",
        meaning="The context length that was asked for is longer than the model's.",
        message="The context length {asked} is longer than the {derived} tokens that the model's configuration gives.",
        patterns=(
            p(
                r"(?:User-specified|Target model's|[\w' -]{1,40}) context_length \((?P<asked>\d+)\) is "
                r"greater than the(?: derived context_length \((?P<derived>\d+)\)| ?$)",
                kind="exception",
            ),
        ),
        phases=("import", "args", "init_distributed", "load_weights"),
        misleading=("the same sentence is a harmless warning where the override is allowed",),
        remedies=(
            r(
                "lower_context",
                "Set --context-length to at most the derived length, or leave it out.",
                {"context_length": None},
                safe=True,
            ),
            r(
                "rope_scaling",
                "Give the model's configuration the rope scaling that its authors name for long contexts.",
            ),
            r(
                "allow_longer",
                "Set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 if you know that the model can do it.",
                host_action="environment SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
            ),
        ),
        not_remedies=("More memory: nothing was allocated yet.",),
        examples=(
            "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a')\nTraceback (most "
            'recent call last):\n  File "/x/sglang/srt/configs/model_config.py", line 9, in __init__\n'
            "ValueError: User-specified context_length (99999) is greater than the derived "
            "context_length (4096). This may lead to errors.",
        ),
        tier=3,
    ),
    Cause(
        id="env_injection",
        meaning="An environment variable of the platform is read as an option of SGLang.",
        message="The environment variable {variable} holds a URL where SGLang reads a number.",
        patterns=(
            p(r"ValueError: invalid literal for int\(\) with base 10: '(?P<value>(?:tcp|udp)://[^']{1,100})'"),
            p(r"(?P<variable>SGLANG_\w{1,40})\b.{0,80}(?:tcp|udp)://"),
        ),
        remedies=(
            r(
                "service_links",
                "Set enableServiceLinks: false in the pod, or rename the Kubernetes Service.",
                host_action="enableServiceLinks: false",
            ),
        ),
        not_remedies=("Changing --port.",),
        examples=(
            'Traceback (most recent call last):\n  File "/x/sglang/srt/utils/common.py", line 9, in '
            "get_int_env_var\nValueError: invalid literal for int() with base 10: 'tcp://10.0.0.1:30000'",
        ),
        tier=3,
    ),
    Cause(
        id="chat_template",
        meaning="The chat template is neither built in nor a file.",
        message="The chat template {template} is neither built in nor a file that can be read.",
        patterns=(
            p(r"Chat template (?P<template>.{1,300}?) is not a built-in template name or a valid chat template file"),
            p(r"(?:jinja2\.exceptions\.)?TemplateSyntaxError", phases=("import", "args", "init_distributed")),
        ),
        misleading=("a relative path means something else in a container",),
        remedies=(
            r(
                "template_path",
                "Give an absolute path that exists where the server runs, or a built-in name.",
                {"chat_template": None},
            ),
        ),
        examples=(
            "RuntimeError: Chat template /nope/a.jinja is not a built-in template name or a valid chat "
            "template file path.",
        ),
        tier=3,
    ),
    Cause(
        id="trust_remote_code",
        meaning="The model's own code is needed, or is used and does harm.",
        message="The model comes with code of its own, which is not allowed to run or does not fit this transformers.",
        patterns=(
            p(r"requires you to execute (?:the|some) (?:configuration |tokenizer |modeling )?(?:file|code)"),
            p(r"(?:pass|set|use|option) .{0,20}trust_remote_code=True|--trust-remote-code", kind="exception"),
            p(r"(?:ImportError|AttributeError|TypeError|ModuleNotFoundError): ", frames=r"transformers_modules"),
        ),
        misleading=("an ImportError that looks like a broken installation",),
        remedies=(
            r(
                "drop_remote_code",
                "Where SGLang has a class of its own for the model, remove --trust-remote-code.",
                {"trust_remote_code": None},
            ),
            r(
                "add_remote_code",
                "Where it has none and you trust the model's authors, add --trust-remote-code.",
                {"trust_remote_code": True},
            ),
        ),
        not_remedies=("Installing an old transformers.",),
        examples=(
            "ValueError: Loading /models/a requires you to execute the configuration file in that repo "
            "on your local machine.",
        ),
        tier=3,
    ),
)

_INVALID_COMBINATION = Cause(
    id="args_invalid_combination",
    meaning="Options contradict each other, or the model.",
    message="Options contradict each other: {problem}.",
    patterns=(
        p(
            r"(?:AssertionError|ValueError): (?P<problem>[^\n]{0,160}\b(?:speculative_\w{2,40}|(?:tp|pp|"
            r"dp|ep|attn_tp|moe_dp)_size|page_size|"
            r"chunked_prefill_size|max_running_requests|cuda_graph_max_bs|"
            r"disaggregation_mode)\b[^\n]{0,120}(?:requires?|must|==|should be|cannot|"
            r"not supported|not divisible|divisible by)[^\n]{0,160})"
        ),
        p(
            r"(?:AssertionError|ValueError): (?P<problem>[^\n]{0,80}\brequires? "
            r"[^\n]{0,60}\b(?:speculative_\w{2,40}|(?:tp|pp|dp|ep)_size|page_size|"
            r"chunked_prefill_size)\b[^\n]{0,160})"
        ),
        p(
            r"(?:AssertionError|ValueError|RuntimeError|NotImplementedError): "
            r"(?P<problem>[^\n]{0,120}(?:requires? (?:--)?\w+(?:_size|-size)\b|[Oo]nly (?:page_size|"
            r"pp_size|tp_size|dp_size|ep_size)[^\n]{0,80}supported|not compatible with|incompatible with|"
            r"mutually exclusive|cannot be (?:used|set|enabled|combined|specified)|can not be (?:used|"
            r"set|enabled)|(?:only|not) (?:be )?supported (?:when|with|in|by|for|on) "
            r"[^\n]{0,60}(?:speculative|radix|attention backend|overlap|page.?size|pipeline|chunked|"
            r"disaggregation|EAGLE|DP|attention)|is not supported in attention backend|must be (?:set|"
            r"enabled|disabled|specified|divisible|less|greater|larger|smaller|equal|at least|a "
            r"multiple))[^\n]{0,300})",
            phases=("import", "args", "init_distributed"),
        ),
        p(
            r"(?:AssertionError|ValueError|NotImplementedError)(?:: (?P<problem>[^\n]{1,400}))?$",
            last=r"server_args\.py|arg_groups/|/overrides\.py",
        ),
        p(
            r"(?:AssertionError|ValueError|RuntimeError|NotImplementedError): "
            r"(?P<problem>[^\n]{0,80}(?:[Oo]nly page_size ?=|is not supported in attention backend|not "
            r"compatible with (?:radix|overlap|speculative)|requires? (?:tp|pp|dp|ep|"
            r"page)_size)[^\n]{0,300})"
        ),
        p(r"AssertionError: (?P<problem>SGLANG_CPU_OMP_THREADS_BIND is not set[^\n]{0,200})"),
        p(
            r"(?:AssertionError|ValueError|NotImplementedError|RuntimeError): (?P<problem>[^\n]{1,160}\b(?:does not|"
            r"doesn't|do not|don't|cannot|not yet) (?:yet |currently )?(?:support|be (?:used|combined) with|work with) "
            r"(?:speculative decoding|(?:pipeline|tensor|expert|data|context) parallel|DP attention|LoRA|PP\b|EP\b|"
            r"overlap|radix cache|chunked prefill|two[- ]batch overlap|CUDA graph|PD[ -]disagg|disaggregation)"
            r"[^\n]{0,160})"
        ),
        p(
            r"(?:AssertionError|ValueError): (?P<problem>[^\n]{0,200}(?:--[a-z][\w-]{2,60}|"
            r"`[a-z][\w-]{2,60}`)[^\n]{0,80}(?:requires?|conflicts?|must|cannot|can't|not supported|only "
            r"support)[^\n]{0,200})",
            phases=("import", "args", "init_distributed"),
        ),
    ),
    remedies=(r("change_option", "Change one of the options that the message names."),),
    not_remedies=("Starting again without a change.",),
    examples=(
        "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a')\nTraceback (most recent "
        'call last):\n  File "/x/sglang/srt/server_args.py", line 9, in __post_init__\nValueError: '
        "Disaggregation requires pp_size=1, got pp_size=8.",
    ),
)

MODEL = (
    Cause(
        id="hf_auth",
        meaning="The model's repository is gated or private.",
        message="The Hub does not give out {url}: the repository is gated or private, or the token is not valid.",
        patterns=(
            p(r"Cannot access gated repo(?: for url (?P<url>\S{1,300}))?"),
            p(r"GatedRepoError"),
            p(r"40[13] Client Error.{0,80}url: (?P<url>https?://huggingface\S{0,300})"),
            p(r"Access to model (?P<url>\S{1,200}) is restricted"),
            p(r"Invalid (?:user token|username or password|credentials in Authorization)"),
        ),
        misleading=("a 403 of a proxy looks alike",),
        remedies=(
            r(
                "token",
                "Accept the model's licence on the Hub and give the service a token of that account (HF_TOKEN).",
                host_action="HF_TOKEN in the unit's environment",
            ),
            r("local_model", "Download the model once with an account that may, and use the local path."),
        ),
        not_remedies=("Installing another transformers.",),
        examples=(
            "OSError: You are trying to access a gated repo.\nCannot access gated repo for url "
            "https://huggingface.co/a/b/resolve/main/config.json.",
        ),
        tier=3,
    ),
    Cause(
        id="hf_offline",
        meaning="The Hub is needed but cannot be reached.",
        message="SGLang asks the Hub for {url}, which cannot be reached from here or is switched off.",
        patterns=(
            p(r"OfflineModeIsEnabled(?:.{0,40}Cannot reach (?P<url>\S{1,300}?):)?"),
            p(r"LocalEntryNotFoundError"),
            p(r"couldn't connect to '(?P<url>https?://\S{1,100})' to load (?:the|this) files?", kind="exception"),
            p(
                r"(?:MaxRetryError|ConnectionError|(?:Connect|Read)Timeout(?:Error)?|ProxyError|"
                r"SSLError|NameResolutionError|ChunkedEncodingError).{0,120}host='(?P<url>[\w.-]*(?:huggingface\.co|hf-mirror\.com|"
                r"modelscope\.cn))'",
                kind="exception",
            ),
            p(r"outgoing traffic has been disabled"),
            p(
                r"(?:HfHubHTTPError|HTTPError): (?:429|5\d\d) [^\n]{0,80}url: (?P<url>https?://[\w.-]*(?:huggingface|hf-mirror)\S{0,200})"
            ),
            p(r"CAS service error|(?P<url>xethub\.hf\.co)", kind="exception"),
            p(
                r"^(?:httpx|httpcore)\.Connect(?:Error|Timeout)\b",
                kind="exception",
                frames=r"huggingface_hub/|transformers/",
            ),
        ),
        misleading=("the file asked for may be an optional one",),
        remedies=(
            r(
                "local_path",
                "Download the model to the host and give --model-path its folder.",
                host_action="model_snapshot",
            ),
            r("newer_version", "Newer versions do not ask for optional files when offline."),
        ),
        not_remedies=("Unsetting HF_HUB_OFFLINE on a host without a way to the Hub.",),
        retryable=True,
        examples=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
            "find them in the cached files.",
        ),
        tier=3,
    ),
    Cause(
        id="mm_processor",
        meaning="The processor for images or audio cannot be built.",
        message="The image or audio processor of the model cannot be built.",
        patterns=(
            p(r"Can't load (?:image |video |feature |audio )?(?:processor|feature extractor)"),
            p(
                r"does not appear to have a file named (?P<file>(?:preprocessor|processor|"
                r"video_preprocessor)_config\.json)"
            ),
            p(r"Unrecognized (?:image |video )?process(?:or|ing) class"),
            p(r"(?:ValueError|RuntimeError): (?:No processor registered|Processor for architecture)"),
            p(
                r"AttributeError: '\w{0,60}Tokenizer\w{0,20}' object has no attribute "
                r"'(?:tokenizer|image_processor|video_processor|feature_extractor)'"
            ),
        ),
        misleading=("the text points to the Hub although the folder is local",),
        remedies=(
            r(
                "processor_files",
                "Put the model's preprocessor_config.json (and the current config.json) into its folder.",
                host_action="model_snapshot",
            ),
            r("transformers_pinned", "Use the transformers version that this SGLang pins."),
        ),
        not_remedies=("Looking for a network problem: the folder is local.",),
        examples=(
            "OSError: /models/a does not appear to have a file named preprocessor_config.json. Checkout "
            "the repository.",
        ),
        tier=3,
    ),
    Cause(
        id="tokenizer_failure",
        meaning="The tokenizer cannot be built or used.",
        message="The tokenizer of the model cannot be built.",
        patterns=(
            p(r"to build an AutoTokenizer"),
            p(r"can't set attribute '?\w*(?:pad|eos|bos)_token"),
            p(r"Couldn't instantiate the backend tokenizer"),
            p(r"(?:Can't load tokenizer for|Tokenizer class \S{1,80} does not exist)"),
            p(
                r"(?:ImportError|ModuleNotFoundError|ValueError|RuntimeError): .{0,160}(?:sentencepiece|"
                r"tiktoken|tokenizers?) (?:library|package)? ?.{0,40}(?:not found|required|needs? to be "
                r"installed|install)"
            ),
            p(r"No module named '(?:sentencepiece|tiktoken|mistral_common)"),
            p(
                r"has no attribute '(?:eos_token_id|pad_token_id|vocab_size|get_added_vocab|"
                r"additional_stop_token_ids|keys|items)'",
                frames=r"tokenizer",
            ),
            p(r"TypeError: not a string$", frames=r"sentencepiece|tokeniz"),
            p(r"Converting from SentencePiece and Tiktoken failed"),
            p(r"data did not match any variant of untagged enum (?:ModelWrapper|PyPreTokenizerTypeWrapper)"),
        ),
        misleading=("in 0.2.x it comes late, after the graphs",),
        remedies=(
            r(
                "tokenizer_files",
                "Complete the tokenizer's files in the model's folder, or name another folder with --tokenizer-path.",
                {"tokenizer_path": "<folder with a tokenizer>"},
            ),
            r("transformers_pinned", "Use the transformers version that this SGLang pins."),
        ),
        not_remedies=("Options for memory.",),
        examples=(
            "ValueError: Couldn't instantiate the backend tokenizer from one of: (1) a tokenizers "
            "library serialization file,",
        ),
        tier=3,
    ),
    Cause(
        id="model_path_invalid",
        meaning="The model path is neither a folder on this host nor the name of a repository.",
        message="The model path {path} is neither a folder that exists here nor a repository.",
        patterns=(
            p(r"Repo id must (?:be|use|start)[^\n]{0,120}?: '(?P<path>[^']{1,400})'"),
            p(r"Incorrect path_or_model_id: '(?P<path>[^']{1,400})'"),
            p(r"HFValidationError|OSError: Repo id must be in the form"),
            p(r"Can't load the configuration of '(?P<path>[^'\n]{1,400})'"),
            p(r"NotADirectoryError: \[Errno 20\] Not a directory: '(?P<path>[^'\n]{1,400})/[\w.-]{1,80}\.json'"),
            p(r"(?P<path>\S{1,300}) is not a local folder and is not a valid model identifier"),
            p(r"RepositoryNotFoundError|404 Client Error.{0,80}huggingface\.co"),
            p(r"RevisionNotFoundError|Revision Not Found"),
            p(
                r"(?:ValueError|RuntimeError|FileNotFoundError|OSError): .{0,60}[Mm]odel (?:path|"
                r"directory|folder) .{0,300}(?:does not exist|not found)"
            ),
        ),
        last_in_chain=True,
        misleading=("a missing local folder is reported as an invalid repository id",),
        remedies=(
            r(
                "fix_path",
                "Correct --model-path, or mount the folder where the server runs.",
                {"model_path": "<an existing folder>"},
                host_action="mount or download the model",
            ),
            r("revision", "A branch is given with --revision, not in the path.", {"revision": "<branch>"}),
        ),
        not_remedies=("Setting HF_TOKEN: a local path needs none.",),
        examples=(
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
            "'/models/does-not-exist'. Use `repo_type` argument if needed.",
        ),
        tier=3,
    ),
    Cause(
        id="model_files_missing",
        meaning="The model's folder exists, a file in it does not.",
        message="The model is not complete: {path} is missing.",
        patterns=(
            p(
                r"(?:FileNotFoundError|OSError|RuntimeError)\b.{0,120}No such file or directory: "
                r"[\"']?(?P<path>[^\"'\n]{0,400}(?:\.safetensors|\.bin|\.gguf|\.pth?|config\.json|"
                r"\.index\.json|model-\d{5}-of-\d{5}[^\"'\n]{0,20}))"
            ),
            p(
                r"does not appear to have (?:a file named|files? named) "
                r"(?!(?:video_)?(?:pre)?processor_config)(?P<path>\(?'?[\w.-]{1,120})"
            ),
            p(r"Error no file named [^\n]{1,200} found in directory (?P<path>\S{1,400}?)\.?$"),
            p(r"Cannot find any model weights with [`'\"](?P<path>[^`'\"]{1,400})"),
            p(
                r"references (?P<count>\d+) shard file\(s\) missing from (?P<folder>\S{1,300})(?: "
                r"\(incomplete download\?\))?: \['(?P<path>[^']{1,200})'"
            ),
            p(r"Unrecognized model in (?P<folder>\S{1,300})\. Should have a .?model_type.? key"),
            p(
                r"No (?:safetensors|weights?|\.bin) files? (?:were )?found|Cannot find (?:the "
                r")?(?:config|weights?) file"
            ),
            p(r"(?:safetensors|weight|checkpoint) (?:file|shard)s? .{0,200}(?:is|are) missing"),
        ),
        remedies=(
            r(
                "complete_download",
                "Finish the download; where the folder holds links (a Hub cache), mount their targets too.",
                host_action="model_snapshot",
            ),
        ),
        not_remedies=("Options for memory.",),
        examples=("RuntimeError: Cannot find any model weights with `/models/a`",),
        tier=3,
    ),
    Cause(
        id="weights_corrupt",
        meaning="A file of the model is damaged, cut short, or a pointer of Git LFS.",
        message="A file of the model is damaged or incomplete: {problem}.",
        patterns=(
            p(r"SafetensorError: (?P<problem>(?:Error while deserializing|Invalid)[^\n]{0,200})"),
            p(
                r"(?P<problem>HeaderTooLarge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|"
                r"HeaderTooSmall|InvalidHeaderStart)"
            ),
            p(r"(?P<problem>Corrupted safetensors file(?:s)? detected)"),
            p(r"JSONDecodeError: (?P<problem>[^\n]{1,120})", frames=r"weight_utils\.py|loader\.py|filter_duplicate"),
            p(r"(?P<problem>(?:config|index) file at '[^']{1,300}' is not a valid JSON file)"),
            p(
                r"(?:UnpicklingError|EOFError|PytorchStreamReader)[^\n]{0,40}: (?P<problem>[^\n]{1,160})",
                frames=r"weight_utils\.py|serialization\.py",
            ),
            p(r"(?P<problem>PytorchStreamReader failed [^\n]{0,120})"),
        ),
        misleading=("an error of a new download after it hides the cause",),
        remedies=(
            r(
                "download_again",
                "Check sizes and checksums of the model's files, download the damaged ones again.",
                host_action="model_snapshot",
            ),
        ),
        not_remedies=("Another version of safetensors or SGLang.",),
        examples=("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",),
        tier=3,
        versions="all; from 0.5.7 on SGLang itself reports a damaged file, deletes it and downloads it again",
    ),
    Cause(
        id="transformers_unknown_model_type",
        meaning="The installed transformers does not know the model's type.",
        message="The installed transformers does not know the model type {model_type}.",
        patterns=(
            p(r"has model type [`'\"](?P<model_type>[^`'\"]{1,80})[`'\"] but Transformers does not recognize"),
            p(r"ValueError: `rope_(?:scaling|parameters)`(?:'s)? .{0,80}must be"),
            p(r"KeyError: '(?P<model_type>[a-z][a-z0-9_-]{1,60})'", last=r"configuration_auto\.py", tier=2),
        ),
        last_in_chain=True,
        misleading=(
            "a KeyError with the type comes first",
            "the advice to install transformers from source breaks other imports",
        ),
        remedies=(
            r("newer_sglang", "Use an SGLang version that supports the model, with the transformers that it pins."),
            r("fix_config", "Compare the model's config.json with the current one of its authors."),
        ),
        not_remedies=("pip install -U transformers alone: it breaks imports of this SGLang.",),
        examples=(
            "ValueError: The checkpoint you are trying to load has model type `nosuch` but Transformers "
            "does not recognize this architecture.",
        ),
        tier=3,
    ),
    Cause(
        id="arch_unsupported",
        meaning="This version of SGLang has no class for the model's architecture.",
        message="This SGLang has no class for the architecture {architecture}.",
        patterns=(
            p(r"Unsupported architectures: (?P<architecture>[\w, ]{1,200})\. Supported list"),
            p(r"Model architectures \[(?P<architecture>[^\]]{1,200})\] (?:are not supported|failed)"),
            p(
                r"(?P<architecture>\w{1,100}) has no SGL?[aA]?ng implementation|"
                r"(?P<architecture2>\w{1,100}) has no SGlang implementation"
            ),
            p(r"Cannot find model module\. '(?P<architecture>\w{1,100})' is not a registered model"),
            p(r"Unrecognized configuration class (?:<class '[\w.]{0,200}?)?(?P<architecture>\w{1,100})'?>?"),
            p(r"ValueError: Unrecognized configuration class"),
            p(
                r"TypeError: 'NoneType' object is not (?:subscriptable|iterable)",
                last=r"model_config\.py|hf_transformers_utils\.py|get_model_architecture|utils\.py:get_model_arch",
            ),
            p(
                r"TypeError: 'NoneType' object is not (?:subscriptable|iterable)",
                last=r"is_multimodal_model|is_generation_model|is_.{1,40}_model$|is_.{1,40}_gen$",
            ),
            p(
                r"AttributeError: '(?P<architecture>\w{1,80}Config)' object has no attribute "
                r"'(?P<key>hidden_size|num_attention_heads|vocab_size|num_hidden_layers|"
                r"max_position_embeddings|architectures|text_config)'"
            ),
        ),
        misleading=(
            'the architecture may be in the list: then its file failed to import ("Ignore import error when loading")',
            "a fallback to models/transformers.py ends in an out of memory",
        ),
        remedies=(
            r("newer_sglang", "Use an SGLang version that supports the architecture."),
            r("converted", "Use a checkpoint that was converted to a supported architecture."),
            r("fix_import", 'Where the log says "Ignore import error" for this model\'s file: fix that import.'),
        ),
        not_remedies=("Raising memory options where it ran out of memory in the fallback.",),
        examples=(
            "ValueError: Model architectures ['NoSuchForCausalLM'] are not supported for now. Supported "
            "architectures: dict_keys(['LlamaForCausalLM'])",
        ),
        tier=3,
    ),
    _INVALID_COMBINATION,
    Cause(
        id="draft_model",
        meaning="The draft model of speculative decoding is the problem.",
        message="The draft model does not fit: {problem}.",
        patterns=(
            p(
                r"(?P<problem>The size of tensor a \(\d+\) must match the size of tensor b \(\d+\))",
                frames=r"eagle|draft|nextn|mtp|speculative",
            ),
            p(r"KeyError: '(?P<problem>[^'\n]{1,200})'", drafting=True),
            p(
                r"(?P<problem>(?:RuntimeError|AssertionError|AttributeError|ValueError|TypeError)[^\n]{0,300})",
                drafting=True,
                phases=("load_weights",),
            ),
            p(
                r"(?P<problem>mat1 and mat2 shapes cannot be multiplied[^\n]{0,80})",
                frames=r"eagle|draft|multi_layer|nextn|mtp|speculative",
            ),
            p(
                r"KeyError: '(?P<problem>(?:layers\.0|midlayer|fc|d2t|t2d|embed_tokens)\.[^'\n]{1,160})'",
                frames=r"eagle|draft|nextn|speculative",
            ),
            p(
                r"AttributeError: (?P<problem>'\w{1,100}' object has no attribute '(?:[gs]et_embed\w{0,20}|"
                r"set_(?:eagle3|dflash|dspark)_\w{1,40}))'"
            ),
            p(r"KeyError: '(?P<problem>(?:model\.)?(?:midlayer|d2t|t2d|draft_model|eagle_module)\b[^'\n]{0,160})'"),
            p(
                r"(?P<problem>(?:KeyError|ValueError|AttributeError|ModuleNotFoundError)[^\n]{0,200})",
                last=r"eagle\w*\.py|_nextn\.py|nextn\.py|eagle_worker|draft",
            ),
        ),
        misleading=("an out of memory when the whole model is loaded a second time as its own draft",),
        remedies=(
            r(
                "matching_draft",
                "Use a draft that was made for this model and this SGLang, converted where its authors say so.",
                {"speculative_draft_model_path": "<a matching draft>"},
            ),
            r(
                "no_speculation",
                "Start without speculative decoding.",
                {"speculative_algorithm": None, "speculative_draft_model_path": None},
                safe=True,
            ),
        ),
        not_remedies=("Installing vllm.", "Lowering --mem-fraction-static."),
        examples=(
            'Traceback (most recent call last):\n  File "/x/sglang/srt/speculative/eagle_worker.py", '
            'line 9, in draft\n  File "/x/sglang/srt/models/llama_eagle.py", line 9, in forward\n'
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x100 and 50x40)",
        ),
        tier=3,
    ),
    Cause(
        id="quant_tp_indivisible",
        meaning="Tensor parallelism cuts through the groups of the quantisation.",
        message="The quantised weights cannot be split into this many parts: {problem}.",
        patterns=(
            p(
                r"(?P<problem>Weight \w{0,60} ?= ?\d+ is not divisible by (?:min_thread_[nk]|weight "
                r"quantization block_[nk]|block_[nk])[^\n]{0,80})"
            ),
            p(
                r"(?P<problem>[^\n:]{0,80}is not divisible by\s{1,3}(?:weight quantization "
                r")?(?:min_thread_[nk]|block_[nk]|group_size)[^\n]{0,80})"
            ),
            p(r"(?P<problem>[^\n:]{0,80}not divisible by .{0,20}quantization block[^\n]{0,80})"),
            p(r"(?P<problem>input size is not aligned with the quantized weight shape[^\n]{0,80})"),
        ),
        remedies=(
            r("smaller_tp", "Use a smaller --tp-size.", {"tp_size": "<smaller>"}),
            r("other_format", "Use a checkpoint with another quantisation or group size."),
        ),
        examples=(
            "ValueError: Weight input_size_per_partition = 14784 is not divisible by min_thread_k = 128. "
            "Consider reducing tensor_parallel_size.",
        ),
        tier=3,
    ),
    Cause(
        id="tp_indivisible",
        meaning="Tensor parallelism does not divide the model's heads or vocabulary.",
        message="{a} cannot be divided by {b}: the tensor parallel size does not fit this model.",
        patterns=(
            p(r"AssertionError: (?P<a>\d+) is not divisible by (?P<b>\d+)"),
            p(
                r"(?:AssertionError|ValueError): .{0,100}(?:num_heads|num_attention_heads|"
                r"num_key_value_heads|num_kv_heads|attention heads|vocab(?:ulary)?[ _]size|"
                r"intermediate_size|hidden_size).{0,80}(?:divisible|multiple)"
            ),
            p(
                r"(?:AssertionError|ValueError): .{0,100}(?:must|should) be divisible by "
                r".{0,40}(?:tp_size|tensor parallel|tp size|world size)"
            ),
            p(r"AssertionError$", last=r"sglang/srt/models/\w+\.py:__init__", phases=("load_weights",)),
        ),
        phases=("load_weights", "args", "init_distributed", "import", "kv_cache"),
        misleading=("the part that cannot be divided may be the vision tower",),
        remedies=(
            r(
                "other_tp",
                "Use a --tp-size that divides the model's attention heads and key-value heads.",
                {"tp_size": "<a divisor>"},
            ),
            r("data_parallel", "Fill the remaining GPUs with --dp-size.", {"dp_size": "<GPUs / tp>"}),
        ),
        examples=(
            "[2026-01-01 10:00:00 TP0] Load weight begin. avail mem=78.50 GB\nTraceback (most recent "
            'call last):\n  File "/x/sglang/srt/distributed/utils.py", line 9, in ensure_divisibility\n'
            "AssertionError: 25 is not divisible by 2",
        ),
        tier=3,
    ),
    Cause(
        id="quant_mismatch",
        meaning="The quantisation of the checkpoint is not the one that was asked for or is expected.",
        message="The checkpoint's quantisation does not fit: {problem}.",
        patterns=(
            p(r"(?P<problem>Quantization method specified in the model config[^\n]{0,200})"),
            p(r"(?P<problem>Unsupported model when in features size is not multiple of 16)"),
            p(
                r"KeyError: '(?P<problem>[\w.]{1,200}(?:\.|w\d{1,2}_)(?:input_scale|weight_scale|weight_scale_inv|"
                r"weight_scale_2|qweight|scales|qzeros|g_idx))'",
                kind="exception",
                frames=r"load_weights|weight_loader",
                phases=("load_weights",),
            ),
            p(r"(?P<problem>size_[kn] = \d+, is not divisible by b_scales[^\n]{0,80})"),
            p(
                r"(?P<problem>(?:a|the) 0-dim(?:ensional)? tensor|0-D tensor|zero-dimensional tensor[^\n]{0,80})",
                frames=r"quantization|weight_loader",
            ),
            p(
                r"(?P<problem>(?:Unknown|Invalid|Unsupported|Cannot find) (?:the )?(?:quantization|"
                r"quant)(?: method| config| file)?[^\n]{0,160})"
            ),
            p(r"(?P<problem>[^\n]{0,80}is not a supported quantization[^\n]{0,80})"),
        ),
        misleading=("a KeyError on a scale looks like damaged weights",),
        remedies=(
            r(
                "omit_quantization",
                "Leave out --quantization: SGLang reads the method from the checkpoint.",
                {"quantization": None},
                safe=True,
            ),
            r(
                "name_method",
                "Name the checkpoint's real method (for NVIDIA checkpoints modelopt_fp8 or modelopt_fp4).",
                {"quantization": "<the checkpoint's method>"},
            ),
            r("newer_sglang", "Use a version that supports this kind of checkpoint."),
        ),
        not_remedies=("Downloading the model again.",),
        examples=(
            "ValueError: Quantization method specified in the model config (awq) does not match the "
            "quantization method specified in the `quantization` argument (fp8).",
        ),
        tier=3,
    ),
    Cause(
        id="quant_unsupported",
        meaning="There is no kernel for this quantisation on this GPU or in this build.",
        message="This build has no kernel for the checkpoint's quantisation on this GPU.",
        patterns=(
            p(
                r"AttributeError: '_OpNamespace' '\w{1,60}' object has no attribute '(?P<op>(?:awq|gptq|"
                r"marlin|fp8|int8|ggml|bnb)\w{0,60})'"
            ),
            p(
                r"(?:quantization|quant_method|[Qq]uantiz\w{0,10}|AWQ|GPTQ|FP8|MXFP4|"
                r"NVFP4)\b.{0,60}(?:is |are )?(?:not|currently not|un)(?: yet)? ?supported (?:on|in|for|"
                r"by) (?:ROCm|HIP|CPU|NPU|XPU|this (?:GPU|platform|device)|the current)"
            ),
            p(
                r"(?:ValueError|RuntimeError): The quantization method .{1,60} is not supported for the "
                r"current GPU. Minimum capability: (?P<needed>\d+). Current capability: (?P<has>\d+)"
            ),
            p(r"AssertionError$", last=r"fused_moe\w*/layer\.py"),
            p(r"Invalid thread config: thread_m_blocks"),  # Marlin has no tile for these sizes
        ),
        misleading=("a bare AssertionError",),
        remedies=(
            r("other_checkpoint", "Use a checkpoint with a quantisation that this GPU can do."),
            r("build", "Use the build of SGLang for this kind of GPU."),
        ),
        examples=("AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute 'awq_dequantize'",),
        tier=3,
    ),
    Cause(
        id="weight_mismatch",
        meaning="Names or shapes in the checkpoint do not fit the model's class.",
        message="The checkpoint does not fit the model's class: {name}.",
        patterns=(
            p(r"KeyError: '(?P<name>(?:[\w-]{1,80}\.){1,20}[\w-]{1,80})'", kind="exception", phases=("load_weights",)),
            p(r"KeyError: '(?P<name>(?:[\w-]{1,80}\.){0,20}layers\.\d{1,4}\.[\w.-]{1,200})'", kind="exception"),
            p(
                r"KeyError: '(?P<name>(?:[\w-]{1,80}\.){1,20}(?:weight|bias|scale|weight_scale(?:_inv)?|"
                r"qweight|scales|qzeros))'",
                kind="exception",
            ),
            p(
                r"AssertionError",
                frames=r"weight_loader|load_weights|default_weight_loader|load_column_parallel|"
                r"load_row_parallel|load_merged|load_qkv",
                phases=("load_weights",),
            ),
            p(r"(?P<name>size mismatch for [\w.]{1,200})"),
            p(
                r"(?P<name>The size of tensor a \(\d+\) must match the size of tensor b \(\d+\))",
                phases=("load_weights",),
            ),
            p(r"(?P<name>Attempted to load weight \([^)]{0,80}\) into parameter \([^)]{0,80}\))"),
            p(
                r"(?P<name>(?:The expanded size of the tensor|start \(\d+\) \+ length \(\d+\) exceeds "
                r"dimension size|shape '\[[^\]]{0,60}\]' is invalid)[^\n]{0,80})",
                phases=("load_weights",),
            ),
            p(
                r"(?P<name>(?:There is no module or parameter named|Following weights were not "
                r"initialized|Some weights .{0,40}not initialized|Parameter \S{1,120} not found "
                r"in)[^\n]{0,160})",
                kind="exception",
            ),
        ),
        misleading=("a progress bar printed after the exception",),
        remedies=(
            r(
                "right_checkpoint",
                "Use the checkpoint in the form that this SGLang expects (not a fine-tuned fragment, "
                "adapter or other format).",
            ),
            r("newer_sglang", "Use a version that supports this checkpoint."),
        ),
        not_remedies=("Options for memory.", "Downloading the model again, where its checksums are right."),
        examples=(
            "[2026-01-01 10:00:00 TP0] Load weight begin. avail mem=78.50 GB\nTraceback (most recent "
            'call last):\n  File "/x/sglang/srt/models/llama.py", line 9, in load_weights\nKeyError: '
            "'model.layers.3.mlp.gate.weight'",
        ),
        tier=3,
    ),
    Cause(
        id="file_missing",
        meaning="A file that an option names does not exist.",
        message="The file {path} does not exist.",
        patterns=(
            p(
                r"FileNotFoundError: (?:\[Errno 2\] )?No such file or directory: "
                r"['\"](?P<path>[^'\"\n]{0,300}/[^'\"\n]{1,200}|[^'\"\n]{1,200}\.(?:json|ya?ml|toml|txt|"
                r"jinja|py))['\"]"
            ),
            p(r"FileNotFoundError: (?P<path>/\S{1,400})"),
            p(r"\bfile (?:was )?not found (?:at|in) ['\"](?P<path>/[^'\"\n]{1,300})['\"]", kind="exception"),
        ),
        remedies=(r("fix_path", "Correct the path, or mount the file where the server runs."),),
        examples=("FileNotFoundError: [Errno 2] No such file or directory: '/etc/sglang/eplb.json'",),
    ),
)
