# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes in kernels: the GPU's generation, backends, compilation by torch, dtypes, numerics."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

_BACKEND = r(
    "attention_backend",
    "Name another --attention-backend (triton and flashinfer are the most general).",
    {"attention_backend": "triton"},
)
_RUNNING = ("init_distributed", "load_weights", "kv_cache", "graph_capture", "compile", "http", "warmup", "runtime")

ROWS = (
    Cause(
        id="compute_capability",
        meaning="The binaries hold no code for this GPU: it is too old or too new.",
        message="The installed kernels hold no code for this GPU ({problem}).",
        patterns=(
            p(r"(?P<problem>no kernel image is available|No compiled kernel for CUDA device capability: \d{1,4})"),
            p(r"(?P<problem>device kernel image is invalid|hipErrorNoBinaryForGpu)"),
            p(r"(?P<problem>No implement\w{0,10} \w{1,60} for (?:the )?current (?:compute|device)[^\n]{0,50})"),
            p(r"(?P<problem>and \"?Unsupported architecture\"?)"),
            p(r"(?P<problem>invalid device function|cudaErrorInvalidDeviceFunction|cudaErrorNoKernelImageForDevice)"),
            p(r"(?P<problem>fp8e4(?:nv|b8|b15) not supported in this architecture[^\n]{0,80})"),
            p(
                r"(?P<problem>(?:Value|option) 'sm_\d{2,3}a?' is not (?:defined|recognized)[^\n]{0,60}|"
                r"Unsupported gpu architecture[^\n]{0,60}|sm_\d{2,3}a? is not (?:defined|"
                r"supported)[^\n]{0,60})"
            ),
            p(r"(?P<problem>ptxas (?:fatal|error)[^\n]{0,120}|PTXASError[^\n]{0,120})"),
            p(r"(?:IndexError: |RuntimeError: |what\(\): {1,2})(?P<problem>map::at)"),
            p(
                r"^(?!.*(?:[Bb]ackend|[Aa]ttention|fa3|M[HL]A))[^\n]{0,200}?(?P<problem>(?:requires?|"
                r"needs?|only supports?|only supported on) .{0,60}(?:compute capability|SM ?\d{2}|"
                r"sm_?\d{2}|Hopper|Ampere|Blackwell|Ada)[^\n]{0,100})",
                kind="exception",
            ),
            p(r"(?P<problem>(?:bfloat16|Bfloat16|BF16) is only supported on GPUs with compute capability[^\n]{0,120})"),
            p(
                r"(?P<problem>SGLang only supports sm\d{2} and above|No supported (?:CUDA "
                r")?arch(?:itecture)?s? found[^\n]{0,80}|Unsupported (?:CUDA |compute |GPU )(?:arch|SM|"
                r"capability)[^\n]{0,80})",
                kind="exception",
            ),
        ),
        misleading=('wrapped into "Capture cuda graph failed" with four wrong hints',),
        remedies=(
            r("wheel_for_gpu", "Use wheels or an image built for this GPU generation."),
            r("dtype_half", "On Turing use --dtype half.", {"dtype": "half"}),
            _BACKEND,
        ),
        not_remedies=("A smaller --mem-fraction-static.", "--disable-cuda-graph: it only moves the crash."),
        examples=(
            "RuntimeError: RMSNorm failed with error code no kernel image is available for execution on the device",
        ),
        tier=3,
    ),
    Cause(
        id="kernel_resource_limit",
        meaning="A kernel needs more shared memory or blocks than this GPU has.",
        message="A kernel needs more than this GPU has: {required} required, {limit} is the limit.",
        patterns=(
            p(r"out of resource: shared memory, Required: (?P<required>\d+), Hardware limit: (?P<limit>\d+)"),
            p(r"out of resource: [\w ]{1,40}, Required: (?P<required>\d+), Hardware limit: (?P<limit>\d+)"),
            p(r"too many blocks in cooperative launch|too many resources requested for launch"),
            p(
                r"exceeds (?:the )?(?:maximum|max|available) (?:dynamic )?shared memory|"
                r"cudaFuncSetAttribute.{0,80}MaxDynamicSharedMemory"
            ),
        ),
        misleading=('"shared memory" is memory on the GPU here, not /dev/shm',),
        remedies=(
            r(
                "smaller_blocks",
                "Use a newer version (its kernels choose smaller blocks), or another --attention-backend.",
                {"attention_backend": "flashinfer"},
            ),
            r("no_compile", "Start without --enable-torch-compile.", {"enable_torch_compile": None}),
        ),
        not_remedies=("A larger --shm-size of the container.",),
        examples=(
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, "
            "Hardware limit: 101376. Reducing block sizes may help.",
        ),
        tier=3,
    ),
    Cause(
        id="backend_unsupported",
        meaning="The attention or MoE backend cannot do this model or this GPU.",
        message="The chosen backend cannot do this model on this GPU: {problem}.",
        patterns=(
            p(
                r"(?P<problem>(?:BatchDecode|BatchPrefill|SinglePrefill)\w{0,60}(?:::|\(|"
                r"[^\n]{0,400}failed to dispatch)[^\n]{0,400})"
            ),
            p(
                r"(?P<problem>failed to dispatch (?:head_dim|group_size|dtype|data type)[^\n]{0,80}|"
                r"Unsupported (?:head[_ ]dim|head size|group_size)[^\n]{0,100}|Invalid head "
                r"dim[^\n]{0,80}|Unsupported max_mma_kv[^\n]{0,80})"
            ),
            p(
                r"(?P<problem>Flash ?Attention(?: v?\d)?[^\n]{0,40}(?:requires?|only supports?|is only "
                r"supported)[^\n]{0,160})"
            ),
            p(
                r"(?P<problem>(?:fa3|fa4|fa2|flashmla|flashinfer|triton|cutlass_mla|trtllm_m[hl]a|aiter|"
                r"torch_native|intel_amx|ascend|TRTLLM M[HL]A|FlashMLA|FlashInfer|Cutlass|CUTLASS)(?: "
                r"attention)?(?: backend)? (?:is required|is only supported|only supports?|requires?|"
                r"does(?: not|n't) support|is not supported|not supported|cannot)[^\n]{0,200})",
                kind="exception",
            ),
            p(
                r"(?P<problem>(?:[Aa]ttention|moe|MoE)[ _-](?:runner[ _-])?backend[^\n]{0,80}(?:is not "
                r"supported|not supported|unsupported|requires?|only support)[^\n]{0,120})",
                kind="exception",
            ),
            p(r"(?P<problem>n?head(?:s|_dim)? ?= ?\d+ (?:is )?not supported[^\n]{0,80})"),
            p(
                r"(?P<problem>Failed to (?:run|initialize) (?:[Cc]utlass|CUTLASS|the TMA descriptor)[^\n]{0,160}|"
                r"[Cc](?:utlass|UTLASS)[^\n]{0,80}(?:cannot implement|Error Internal)[^\n]{0,40})",
                kind="exception",
            ),
            p(r"RuntimeError: (?P<problem>Error Internal)$"),
            p(r"(?P<problem>Invalid configuration ?: NUM_MMA[^\n]{0,160})"),
            p(r"(?P<problem>[Oo]nly [^\n]{0,200}\bbackends? (?:is|are) supported[^\n]{0,200})", kind="exception"),
            p(
                r"(?:Error|Exception): (?P<problem>[^\n]{1,160}\b(?:not|only) (?:yet )?(?:be )?"
                r"(?:supported|implemented|compatible) (?:for|by|on|in|with|when using) (?:the )?"
                r"(?:[Ff]lash[Ii]nfer|[Ff]lash[ _]?[Aa]ttention|FlashMLA|Triton|triton|CUTLASS|"
                r"[Cc]utlass|FA[234]|fa[234]|TRT-?LLM|trtllm|Marlin|DeepGEMM|deep_gemm|"
                r"AITER|aiter|torch_native|[Aa]scend)\b[^\n]{0,160})"
            ),
            p(r"(?P<problem>AclNN_\w{1,60}\(EZ\d{4}\)[^\n]{0,200}|(?:EZ|E[A-Z])\d{4}: [^\n]{0,200})"),
            p(
                r"(?P<problem>Triton Error \[(?:HIP|CUDA)\]: {1,3}Code: 1[^\n]{0,80}|Triton Error "
                r"\[(?:HIP|CUDA)\]: (?:invalid argument|operation not supported)[^\n]{0,40})"
            ),
            p(r"(?P<problem>call aclnn\w{1,60} failed[^\n]{0,80})"),
            p(
                r"AssertionError(?P<problem>)$",
                last=r"/layers/attention/|extend_attention|decode_attention|/flashinfer/|prefill_attention|triton_ops/",
            ),
            p(
                r"(?P<problem>Expected size for first two dimensions of batch2[^\n]{0,120})",
                frames=r"torch_native|/attention/",
            ),
            p(
                r"(?P<problem>(?:NotImplementedError|AssertionError|ValueError|RuntimeError): "
                r"[^\n]{0,200}(?:not (?:yet )?(?:implemented|supported)|unsupported|[Oo]nly "
                r"supports?)[^\n]{0,120})",
                last=r"/layers/attention/|/layers/moe/|attention_registry|/flashinfer/|flash_attn|flashmla|/aiter/",
            ),
            p(
                r"(?P<problem>(?:page[_ ]size|block[_ ]size|dtype|kv_cache_dtype)[^\n]{0,80}(?:not "
                r"supported|unsupported)[^\n]{0,80})",
                last=r"/layers/attention/|attention_registry|/flashinfer/",
            ),
        ),
        misleading=("the same cause appears at the graphs, or in the warm-up with --disable-cuda-graph",),
        remedies=(
            _BACKEND,
            r(
                "moe_backend",
                "For mixture-of-experts kernels name another --moe-runner-backend.",
                {"moe_runner_backend": "triton"},
            ),
        ),
        not_remedies=("--disable-cuda-graph: the same kernel runs in the warm-up.",),
        examples=(
            "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use "
            "`--attention-backend flashinfer`.",
        ),
        tier=3,
    ),
    Cause(
        id="custom_allreduce_p2p",
        meaning="The GPUs cannot read each other's memory, and the custom all-reduce needs that.",
        message="The custom all-reduce failed: the GPUs cannot reach each other's memory.",
        patterns=(
            p(r"custom_all_reduce\.cuh?:\d{1,5}"),
            p(r"peer access is not supported between these two devices", frames=r"."),
            p(r"^(?:Failed|RuntimeError): .{0,200}peer access is not supported"),
            p(r"cudaIpcOpenMemHandle|invalid argument.{0,40}custom_all_reduce", frames=r"custom_all_reduce|custom_ar"),
            p(r"(?:RuntimeError|AssertionError)", last=r"custom_all_?reduce|custom_ar", phases=_RUNNING),
        ),
        misleading=('the same sentence as a warning of "Setup Custom allreduce" is harmless',),
        remedies=(
            r(
                "no_custom_allreduce",
                "Start with --disable-custom-all-reduce.",
                {"disable_custom_all_reduce": True},
                safe=True,
            ),
        ),
        examples=(
            "Failed: Cuda error /x/custom_all_reduce.cuh:307 'peer access is not supported between these two devices'",
        ),
        tier=3,
        versions="fatal up to 0.4.4, since then mostly a warning",
    ),
    Cause(
        id="dtype_mismatch",
        meaning="A kernel got another data type than it was made for.",
        message="A kernel got another data type than it expects: {problem}.",
        patterns=(
            p(r"(?P<problem>expected scalar type \w{1,20} but found \w{1,20})"),
            p(r"(?P<problem>expected (?:input )?dtype ?=[^\n]{0,80})"),
            p(r"Assertion error \([^)\n]{1,200}\): (?P<problem>[^\n]{0,80}scalar_type\(\) == [^\n]{1,80})"),
            p(r"(?P<problem>Unsupported (?:lhs|rhs) dtype \w{1,20})"),
            p(r"(?P<problem>Check failed: [^\n]{0,120}dtype(?:\(\))? ?[=!]=[^\n]{0,160})"),
            p(
                r"(?P<problem>expected (?:m1 and m2|mat1 and mat2) to have the same dtype[^\n]{0,80}|"
                r"must have the same dtype[^\n]{0,80})"
            ),
            p(r"(?P<problem>initial value for `\w{1,60}` is of type [^\n]{1,80}redefines it as[^\n]{0,60})"),
            p(
                r"(?P<problem>(?:Half|BFloat16|Float|Char|Byte|Float8_e4m3fn)'? (?:is )?not "
                r"(?:implemented|supported) for[^\n]{0,80}|not implemented for '(?:Half|BFloat16|"
                r"Float8\w{0,12})')"
            ),
            p(r"(?P<problem>torch\.(?:bfloat16|float16) is not supported for quantization method[^\n]{0,120})"),
            p(
                r"(?P<problem>(?:Query|query|q), (?:key|k),? and (?:value|v) (?:to|must) have the same "
                r"dtype[^\n]{0,80})"
            ),
        ),
        remedies=(r("dtype", "Set --dtype to what the kernel expects (half for AWQ).", {"dtype": "half"}),),
        examples=("RuntimeError: expected scalar type Half but found BFloat16",),
        tier=3,
    ),
    Cause(
        id="torch_compile_error",
        meaning="torch.compile cannot trace the model.",
        message="torch.compile failed on this model.",
        patterns=(
            p(
                r"torch\._dynamo\.exc\.\w{1,60}|InternalTorchDynamoError|BackendCompilerFailed|"
                r"TorchRuntimeError|torch\._inductor\.exc\.\w{1,60}"
            ),
            p(r"Piecewise CUDA Graph failed with error"),
            p(r"Error while creating guard"),
            p(r"\[\d+/\d+\] (?:[A-Z]\w{1,40}Error)", kind="line", tier=2),
            p(r"(?:Error|Exception)\b", last=r"torch/_(?:dynamo|inductor|functorch|guards)"),
            p(r"(?:Error|Exception)\b", frames=r"torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)"),
        ),
        misleading=("every line has a prefix [rankN]:E",),
        remedies=(
            r("no_compile", "Start without --enable-torch-compile.", {"enable_torch_compile": None}, safe=True),
            r("no_piecewise", "Start with --disable-piecewise-cuda-graph.", {"disable_piecewise_cuda_graph": True}),
        ),
        not_remedies=("Lowering --mem-fraction-static.",),
        examples=("torch._dynamo.exc.InternalTorchDynamoError: TypeError: unhashable type",),
        tier=3,
    ),
    Cause(
        id="torch_internal_assert",
        meaning="An internal check of torch failed.",
        message="An internal check of torch failed.",
        patterns=(p(r"INTERNAL ASSERT FAILED|captures_underway|operation not permitted when stream is capturing"),),
        remedies=(
            r(
                "other_version",
                "Use another SGLang or torch version, or leave out the option that the traceback names.",
            ),
        ),
        examples=(
            "RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "
            '"/pytorch/c10/cuda/CUDACachingAllocator.cpp":2967, please report a bug to PyTorch.',
        ),
        tier=3,
    ),
    Cause(
        id="nan_logits",
        meaning="The first computation gave no numbers.",
        message="The model computed NaN or infinity in the warm-up.",
        patterns=(
            p(r"probability tensor contains either|Assertion `NaN detected"),
            p(r"(?:Detected|contains?|found) (?:NaN|nan|errors during sampling)[^\n]{0,80}", kind="exception"),
        ),
        remedies=(
            r("dtype", "Use another --dtype, or another quantisation of the checkpoint.", {"dtype": "bfloat16"}),
        ),
        examples=("RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",),
        tier=3,
    ),
    Cause(
        id="cuda_fork_reinit",
        meaning="CUDA was used before the process forked.",
        message="CUDA was touched before the server's processes were forked.",
        patterns=(p(r"Cannot re-initialize CUDA in forked subprocess"),),
        remedies=(
            r(
                "spawn",
                "Start the server as a process of its own (python -m sglang.launch_server), or use the "
                "start method spawn.",
            ),
        ),
        examples=(
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method",
        ),
        tier=3,
    ),
)
