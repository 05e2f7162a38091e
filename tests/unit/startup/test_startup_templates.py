# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang, torch, NCCL, Python and shells print, in the shapes of many versions -> the cause."""

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose

ARGS = "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a', port=30000, speculative_algorithm=None)\n"
DIST = ARGS + "[2026-01-01 10:00:05 TP0] Init torch distributed begin.\n"
LOAD = DIST + "[2026-01-01 10:00:07 TP0] Load weight begin. avail mem=78.50 GB\n"
KV = (
    LOAD
    + "[2026-01-01 10:00:20 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=60.00 GB\n"
)
GRAPH = (
    KV + "[2026-01-01 10:00:22 TP0] Memory pool end. avail mem=5.00 GB\n[2026-01-01 10:00:22 TP0] Capture "
    "cuda graph begin. avail mem=4.9 GB\n"
)
HTTP = GRAPH + (
    "[2026-01-01 10:00:40 TP0] Capture cuda graph end. Time elapsed: 18.00 s\n"
    "[2026-01-01 10:00:41 TP0] max_total_num_tokens=1000, chunked_prefill_size=8192\n"
    "[2026-01-01 10:00:42] INFO:     Application startup complete.\n"
)
WARM = HTTP + "[2026-01-01 10:00:42] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)\n"


def trace(*frames: str, rank: str = " TP0") -> str:
    """A traceback through these frames ("file:function"), without its exception."""
    lines = ["[2026-01-01 10:01:00%s] Scheduler hit an exception: Traceback (most recent call last):" % rank]
    for frame in frames:
        name, _colon, function = frame.rpartition(":")
        lines += [
            '  File "/venv/lib/python3.12/site-packages/%s", line 42, in %s' % (name, function),
            "    some_call(argument)",
        ]
    return "\n".join(lines) + "\n"


RUN = "sglang/srt/managers/scheduler.py:run_scheduler_process"
LOADF = trace(RUN, "sglang/srt/model_executor/model_runner.py:load_model", "sglang/srt/models/llama.py:load_weights")
GRAPHF = trace(
    RUN,
    "sglang/srt/model_executor/model_runner.py:init_cuda_graphs",
    "sglang/srt/model_executor/cuda_graph_runner.py:capture",
)
ATTNF = trace(
    RUN, "sglang/srt/layers/attention/flashinfer_backend.py:init_forward_metadata", "flashinfer/decode.py:plan"
)
LOOPF = trace(RUN, "sglang/srt/managers/scheduler.py:event_loop_overlap", "sglang/srt/managers/scheduler.py:run_batch")
MAIN = (
    'Traceback (most recent call last):\n  File "<frozen runpy>", line 198, in _run_module_as_main\n  File '
    '"/venv/lib/python3.12/site-packages/sglang/launch_server.py", line 13, in <module>\n    server_args = '
    "prepare_server_args(sys.argv[1:])\n"
)
IMPORT = (
    MAIN + '  File "/venv/lib/python3.12/site-packages/sglang/srt/layers/quantization/fp8.py", line 5, in '
    "<module>\n    import something\n"
)
ARGF = (
    MAIN + '  File "/venv/lib/python3.12/site-packages/sglang/srt/server_args.py", line 900, in __post_init__\n '
    "   self.check()\n"
)
CONFF = (
    ARGS + MAIN + '  File "/venv/lib/python3.12/site-packages/sglang/srt/configs/model_config.py", line 60, in '
    "__init__\n    get_config(path)\n"
)

CASES = [
    # arguments
    (
        "args_unrecognized",
        "usage: launch_server.py [-h]\n  [--watchdog-timeout X]\nlaunch_server.py: error: unrecognized "
        "arguments: --enable-reasoning\n",
    ),
    (
        "args_unrecognized",
        "usage: sglang serve [-h]\nsglang serve: error: unrecognized arguments: --foo\n[2026-01-01 10:00:00] "
        "The current platform is cuda\n",
    ),
    (
        "args_unrecognized",
        "launch_server.py: error: ambiguous option: --enable-m could match --enable-metrics, --enable-mixed-chunk\n",
    ),
    ("args_invalid_value", "launch_server.py: error: argument --tp-size: invalid int value: 'two'\n"),
    ("args_invalid_value", "launch_server.py: error: argument --kv-cache-dtype: expected one argument\n"),
    ("args_invalid_value", "/entrypoint.sh: line 12: exec: --: invalid option\n"),
    (
        "args_invalid_value",
        WARM + 'Traceback (most recent call last):\n  File "/venv/uvicorn/config.py", line 370, in '
        "configure_logging\n    x\nKeyError: 'INFO'\n",
    ),
    ("args_invalid_combination", ARGF + "AssertionError: Please set only one of tp and dp\n"),
    ("args_invalid_combination", ARGF + "AssertionError\n"),
    ("args_invalid_combination", ARGS + ARGF + "ValueError: Speculative decoding is not compatible with radix cache\n"),
    (
        "args_invalid_combination",
        DIST
        + trace(RUN, "sglang/srt/layers/attention/x.py:__init__")
        + "AssertionError: Only page_size=1 is supported for this backend with speculative decoding\n",
    ),
    (
        "args_invalid_combination",
        DIST + trace(RUN) + "ValueError: EAGLE is not supported in attention backend torch_native\n",
    ),
    (
        "context_too_long",
        CONFF + "ValueError: Warning: User-specified context_length (65536) is greater than the derived "
        "context_length (32768). This may lead to incorrect output.\n",
    ),
    (
        "env_injection",
        MAIN + '  File "/venv/sglang/srt/utils.py", line 9, in get_int\nValueError: invalid literal for int() '
        "with base 10: 'tcp://10.96.0.10:30000'\n",
    ),
    # model, tokenizer, hub
    (
        "model_path_invalid",
        CONFF + "OSError: Incorrect path_or_model_id: '/data/none'. Please provide either the path to a local folder "
        "or the repo_id of a model on the Hub.\n",
    ),
    (
        "model_path_invalid",
        CONFF + "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/models/none'. Use `repo_type` argument if needed.\n",
    ),
    (
        "model_path_invalid",
        CONFF + "OSError: foo/bar is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\n",
    ),
    (
        "model_files_missing",
        LOAD + LOADF + 'FileNotFoundError: No such file or directory: "/models/a/model-00003-of-00008.safetensors"\n',
    ),
    (
        "model_files_missing",
        CONFF + "OSError: /models/a does not appear to have a file named config.json. Checkout "
        "'https://huggingface.co//models/a/tree/None'.\n",
    ),
    ("file_missing", MAIN + "FileNotFoundError: [Errno 2] No such file or directory: '/etc/llm/template.jinja'\n"),
    (
        "hf_auth",
        CONFF + "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1)\nCannot access gated "
        "repo for url https://huggingface.co/x/y/resolve/main/config.json.\n",
    ),
    (
        "hf_offline",
        CONFF + "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
        "https://huggingface.co/x/y/resolve/main/hf_quant_config.json: offline mode is enabled.\n",
    ),
    (
        "hf_offline",
        CONFF + "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file "
        "on the Hub and we cannot find the requested files in the local cache.\n",
    ),
    (
        "tokenizer_failure",
        CONFF + "ValueError: Unrecognized configuration class <class 'x.Config'> to build an AutoTokenizer.\n",
    ),
    (
        "tokenizer_failure",
        HTTP + 'Traceback (most recent call last):\n  File "/venv/sglang/srt/server.py", line 9, in '
        "launch_server\nAttributeError: can't set attribute 'pad_token_id'\n",
    ),
    (
        "tokenizer_failure",
        CONFF + "ImportError: This tokenizer cannot be instantiated. Please make sure you have `sentencepiece` "
        "library installed, sentencepiece not found.\n",
    ),
    (
        "chat_template",
        ARGS
        + MAIN
        + "RuntimeError: Chat template my.jinja is not a built-in template name or a valid chat template file "
        "path.\n",
    ),
    (
        "mm_processor",
        ARGS
        + MAIN
        + "OSError: Can't load image processor for '/models/a'. If you were trying to load it from the Hub, "
        "make sure there is no local directory with the same name.\n",
    ),
    (
        "mm_processor",
        ARGS + MAIN + "ValueError: Unrecognized processing class in /models/a. Can't instantiate a processor.\n",
    ),
    (
        "trust_remote_code",
        CONFF + "ValueError: Loading /models/a requires you to execute the configuration file in that repo on your "
        "local machine. Set the option `trust_remote_code=True` to remove this error.\n",
    ),
    (
        "trust_remote_code",
        LOAD
        + trace(RUN, "transformers_modules/a/modeling_a.py:<module>")
        + "ImportError: cannot import name 'X' from 'transformers.y' (/venv/transformers/y.py)\n",
    ),
    (
        "transformers_unknown_model_type",
        CONFF
        + "KeyError: 'glm99'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        + MAIN
        + "ValueError: The checkpoint you are trying to load has model type `glm99` but Transformers does not "
        "recognize this architecture.\n",
    ),
    (
        "transformers_unknown_model_type",
        CONFF + "ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`, got "
        "{'rope_type': 'llama3'}\n",
    ),
    (
        "arch_unsupported",
        LOAD + trace(RUN) + "ValueError: Model architectures ['XForCausalLM'] are not supported for now. Supported "
        "architectures: dict_keys(['A', 'B'])\n",
    ),
    (
        "arch_unsupported",
        LOAD
        + trace(RUN)
        + "ValueError: XForCausalLM has no SGLang implementation and the Transformers implementation is not "
        "compatible with SGLang.\n",
    ),
    ("arch_unsupported", CONFF + "AttributeError: 'XConfig' object has no attribute 'hidden_size'\n"),
    # installation
    (
        "package_version_mismatch",
        IMPORT + "ImportError: cannot import name 'default_weight_loader' from 'vllm.model_executor.weights' "
        "(/venv/vllm/weights.py)\n",
    ),
    ("package_version_mismatch", IMPORT + "ModuleNotFoundError: No module named 'vllm.model_executor.layers.foo'\n"),
    (
        "package_version_mismatch",
        LOAD
        + trace(RUN, "sglang/srt/layers/quantization/awq.py:create_weights")
        + "TypeError: create_weights() got an unexpected keyword argument 'weight_loader'\n",
    ),
    (
        "package_version_mismatch",
        LOAD
        + trace(RUN, "sglang/srt/layers/quantization/awq.py:create_weights")
        + "TypeError: A.create_weights() missing 1 required positional argument: 'size'\n",
    ),
    (
        "package_version_mismatch",
        MAIN + "Exception: sgl-kernel is installed with version 0.1.0, which is less than the minimum required "
        "version 0.3.0. Please reinstall.\n",
    ),
    (
        "package_version_mismatch",
        IMPORT + "ValueError: '<class 'sglang.srt.configs.x.XConfig'>' is already used by a Transformers model.\n",
    ),
    (
        "package_version_mismatch",
        IMPORT + "ValueError: 'x' is already used by a Transformers config, pick another name.\n",
    ),
    ("import_missing_package", IMPORT + "ModuleNotFoundError: No module named 'orjson'\n"),
    ("import_missing_package", IMPORT + 'RuntimeError: Form data requires "python-multipart" to be installed.\n'),
    (
        "import_missing_package",
        CONFF + "ImportError: awq quantization requires some operators from vllm. Please install vllm by pip install "
        "vllm==0.9.0.1\n",
    ),
    ("import_missing_package", LOAD + LOADF + "ImportError: mamba-ssm is required to run this model\n"),
    ("import_missing_package", CONFF + "NameError: name 'check_marlin_supported' is not defined\n"),
    (
        "broken_install",
        'Traceback (most recent call last):\n  File "/w/run.py", line 1, in <module>\nImportError: cannot '
        "import name 'ServerArgs' from 'sglang' (unknown location)\n",
    ),
    ("broken_install", "/usr/bin/python3: No module named sglang\n"),
    (
        "broken_install",
        "/usr/bin/python3: Error while finding module specification for 'sglang.launch_server' "
        "(ModuleNotFoundError: No module named 'sglang')\n",
    ),
    (
        "kernel_abi_mismatch",
        IMPORT + "ImportError: /venv/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab\n",
    ),
    (
        "kernel_abi_mismatch",
        IMPORT + "AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute 'rotary_embedding'\n",
    ),
    (
        "missing_shared_lib",
        IMPORT + "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n",
    ),
    (
        "driver_too_old",
        DIST
        + trace(RUN)
        + "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your "
        "GPU driver.\n",
    ),
    (
        "driver_too_old",
        DIST
        + trace(RUN)
        + "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
        "attempted on non supported HW\n",
    ),
    ("no_gpu", ARGF + "RuntimeError: No accelerator (CUDA, XPU, HPU, NPU) is available.\n"),
    ("no_gpu", DIST + trace(RUN) + "RuntimeError: No CUDA GPUs are available\n"),
    (
        "no_gpu",
        DIST
        + trace(RUN)
        + "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n",
    ),
    (
        "gpu_count_insufficient",
        DIST
        + trace(RUN)
        + "torch.AcceleratorError: CUDA error: invalid device ordinal\nGPU device may be out of range, do you "
        "have enough GPUs?\nCUDA kernel errors might be asynchronously reported.\n",
    ),
    ("gpu_count_insufficient", DIST + trace(RUN) + "RuntimeError: HIP error: invalid device ordinal\n"),
    # kernels
    (
        "compute_capability",
        GRAPH + GRAPHF + "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
    ),
    (
        "compute_capability",
        GRAPH + GRAPHF + "ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are "
        "('fp8e4b15', 'fp8e5')\n",
    ),
    (
        "compute_capability",
        GRAPH
        + GRAPHF
        + "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\nptxas fatal   : "
        "Value 'sm_121a' is not defined for option 'gpu-name'\n",
    ),
    (
        "compute_capability",
        GRAPH
        + GRAPHF
        + "Exception: Capture cuda graph failed: CUDA error: no kernel image is available for execution on the "
        "device\nPossible solutions:\n1. disable cuda graph by --disable-cuda-graph\n2. set "
        "--mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\nOpen an issue on GitHub "
        "https://github.com/x\n",
    ),
    (
        "backend_unsupported",
        GRAPH
        + ATTNF
        + "RuntimeError: BatchDecodeWithPagedKVCachePyTorchWrapper::Plan(at::Tensor)::<lambda()> failed to "
        "dispatch head_dim 80\n",
    ),
    (
        "backend_unsupported",
        DIST
        + trace(RUN)
        + "AssertionError: TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a "
        "different backend.\n",
    ),
    (
        "backend_unsupported",
        WARM
        + trace(RUN, "sglang/srt/layers/attention/triton_ops/extend_attention.py:extend_attention_fwd")
        + "AssertionError\n",
    ),
    (
        "kernel_resource_limit",
        GRAPH
        + GRAPHF
        + "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware "
        "limit: 101376. Reducing block sizes or `num_stages` may help.\n",
    ),
    (
        "kernel_resource_limit",
        GRAPH
        + GRAPHF
        + "RuntimeError: Failed: CUDA error /x/internode.cu:341 'too many blocks in cooperative launch'\n",
    ),
    ("jit_toolchain", GRAPH + GRAPHF + "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'\n"),
    (
        "jit_toolchain",
        GRAPH + GRAPHF + "RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)\n",
    ),
    (
        "jit_toolchain",
        GRAPH
        + GRAPHF
        + "RuntimeError: Ninja build failed. Ninja output:\nninja: Entering directory `/c'\n[1/2] c++ -c a.cc\n"
        "FAILED: [code=1] a.o\n/x/cutlass/a.h:52:10: fatal error: curand_kernel.h: No such file or "
        "directory\n   52 | #include <curand_kernel.h>\ncompilation terminated.\nninja: build stopped: "
        "subcommand failed.\n",
    ),
    (
        "jit_toolchain",
        GRAPH + GRAPHF + "RuntimeError: Ninja build failed. Ninja output:\nFAILED: [code=127] a.o\n/bin/sh: 1: "
        "/usr/local/cuda/bin/nvcc: not found\n",
    ),
    ("torch_compile_error", GRAPH + GRAPHF + "torch._dynamo.exc.Unsupported: call_method UserDefinedObjectVariable\n"),
    (
        "torch_compile_error",
        GRAPH + trace(RUN, "torch/_dynamo/symbolic_convert.py:step") + "AssertionError: expected tensor\n",
    ),
    (
        "torch_internal_assert",
        GRAPH + GRAPHF + "RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "
        '"/pytorch/c10/cuda/CUDACachingAllocator.cpp":2967\n',
    ),
    ("dtype_mismatch", WARM + LOOPF + "RuntimeError: expected scalar type Half but found BFloat16\n"),
    (
        "quant_mismatch",
        CONFF + "ValueError: Quantization method specified in the model config (gptq) does not match the "
        "quantization method specified in the `quantization` argument (awq).\n",
    ),
    ("quant_mismatch", LOAD + LOADF + "KeyError: 'model.layers.0.mlp.experts.0.down_proj.input_scale'\n"),
    (
        "quant_tp_indivisible",
        LOAD
        + LOADF
        + "ValueError: Weight output_partition_size = 704 is not divisible by weight quantization block_n = "
        "128.\n",
    ),
    (
        "quant_unsupported",
        LOAD + trace(RUN, "sglang/srt/layers/moe/fused_moe_triton/layer.py:__init__") + "AssertionError\n",
    ),
    ("tp_indivisible", LOAD + LOADF + "AssertionError: 40 is not divisible by 16\n"),
    ("weight_mismatch", LOAD + LOADF + "KeyError: 'model.embed_tokens.weight'\n"),
    ("weight_mismatch", LOAD + trace(RUN, "sglang/srt/layers/linear.py:weight_loader") + "AssertionError\n"),
    (
        "weights_corrupt",
        LOAD + LOADF + "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer\n",
    ),
    (
        "weights_corrupt",
        LOAD
        + trace(RUN, "sglang/srt/model_loader/weight_utils.py:filter_duplicate_safetensors_files")
        + "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
    ),
    (
        "draft_model",
        LOAD.replace("speculative_algorithm=None", "speculative_algorithm='EAGLE'")
        + "[2026-01-01 10:00:20 TP0] Load weight end. type=LlamaForCausalLM\n[2026-01-01 10:00:21 TP0] Load "
        "weight begin. avail mem=20.00 GB\n" + LOADF + "KeyError: 'layers.0.self_attn.qkv_proj.weight'\n",
    ),
    # memory
    (
        "kv_cache_no_memory",
        KV
        + trace(RUN, "sglang/srt/model_executor/model_runner.py:init_memory_pool")
        + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
    ),
    (
        "kv_cache_no_memory",
        KV + trace(RUN) + "RuntimeError: Not enought memory. Please try to increase --mem-fraction-static.\n",
    ),
    (
        "oom_load_weights",
        LOAD
        + LOADF
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 500.00 MiB is free. Including non-PyTorch memory, this process has 78.60 GiB "
        "memory in use.\n",
    ),
    (
        "oom_kv_or_runtime_pool",
        KV
        + trace(RUN, "sglang/srt/mem_cache/memory_pool.py:_create_buffers")
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 1.00 GiB is free.\n",
    ),
    (
        "oom_graph_capture",
        GRAPH + GRAPHF + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total "
        "capacity of 79.15 GiB of which 1.00 MiB is free.\n",
    ),
    (
        "gpu_occupied",
        LOAD.replace("78.50", "7.10")
        + LOADF
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB of which 500.00 MiB is free. Process 77 has 71.00 GiB memory in use. Including "
        "non-PyTorch memory, this process has 7.60 GiB memory in use.\n",
    ),
    (
        "memory_unbalanced",
        DIST
        + trace(RUN)
        + "RuntimeError: The memory capacity is unbalanced. min_per_gpu_memory=1.0, local_gpu_memory=20.0\n",
    ),
    ("mamba_pool", KV + trace(RUN) + "RuntimeError: Not enough space for mamba cache\n"),
    (
        "host_oom_killed",
        LOAD + "[2026-01-01 10:01:00] Rank 0 scheduler is dead. Please check if there are relevant logs.\n"
        "[2026-01-01 10:01:01] Exit code: -9\nTraceback (most recent call last):\n  File "
        '"/venv/multiprocessing/connection.py", line 383, in _recv\nEOFError\n',
    ),
    (
        "host_memory_alloc",
        LOAD + LOADF + "RuntimeError: unable to mmap 5368709120 bytes from file </models/a/model.safetensors>: Cannot "
        "allocate memory (12)\n",
    ),
    ("disk_full", CONFF + "OSError: [Errno 28] No space left on device: '/home/user/.cache/x'\n"),
    ("permission_denied", IMPORT + "PermissionError: [Errno 13] Permission denied: '/.triton'\n"),
    (
        "shm_ulimit",
        DIST
        + "Error while creating shared memory segment /dev/shm/nccl-Ab12 (size 33030528)\n"
        + trace(RUN)
        + "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n",
    ),
    (
        "native_crash",
        GRAPH + "Fatal Python error: Segmentation fault\n\nThread 0x00007f (most recent call first):\n  File "
        '"/venv/x.py", line 3 in f\n',
    ),
    # between processes
    (
        "scheduler_killed",
        LOAD + "[2026-01-01 10:01:00] Scheduler or DataParallelController 21137 terminated with -9\n",
    ),
    ("scheduler_killed", LOAD + "[2026-01-01 10:01:00] Scheduler or DataParallelController 77 terminated with -3\n"),
    ("native_crash", LOAD + "[2026-01-01 10:01:00] Scheduler or DataParallelController 77 terminated with -6\n"),
    (
        "peer_rank_died",
        GRAPH
        + trace(RUN)
        + "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer "
        "[10.0.0.2]:15006\n[2026-01-01 10:01:00] Scheduler or DataParallelController 77 terminated with -9\n",
    ),
    (
        "peer_rank_died",
        GRAPH
        + trace(RUN)
        + "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer "
        "[10.0.0.2]:15006\n",
    ),
    (
        "nccl_error",
        DIST
        + trace(RUN)
        + "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:77, unhandled cuda error, "
        "NCCL version 2.21.5\n",
    ),
    (
        "nccl_timeout",
        GRAPH + "[rank1]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600003 "
        "milliseconds before timing out.\n[2026-01-01 10:20:00] Received sigquit from a child process. It "
        "usually means the child failed.\n",
    ),
    (
        "custom_allreduce_p2p",
        DIST + "Failed: Cuda error /x/csrc/custom_all_reduce.cuh:307 'peer access is not supported between these "
        "two devices'\n",
    ),
    (
        "rdma_transport",
        DIST
        + trace(RUN)
        + "RuntimeError: Failed: Assertion error /x/DeepEP/csrc/kernels/runtime.cu:50 'nvshmem_my_pe() == "
        "rank'\n",
    ),
    (
        "rendezvous_failed",
        DIST
        + trace(RUN, "torch/distributed/rendezvous.py:_env_rendezvous_handler")
        + "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients "
        "joined.\n",
    ),
    (
        "port_in_use",
        HTTP + "[2026-01-01 10:00:43] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', "
        "30000): address already in use\n",
    ),
    ("port_in_use", ARGS + MAIN + "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5557')\n"),
    (
        "port_in_use",
        DIST
        + trace(RUN)
        + "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n",
    ),
    (
        "cuda_fork_reinit",
        DIST
        + trace(RUN)
        + "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method\n",
    ),
    (
        "warmup_request_failed",
        WARM + "[2026-01-01 10:02:43] Initialization failed. warmup error: Traceback (most recent call last):\n  "
        'File "/venv/sglang/srt/entrypoints/http_server.py", line 9, in _execute_server_warmup\n    assert '
        'res.status_code == 200, f"{res=}, {res.text=}"\nAssertionError: res=<Response [502]>, '
        "res.text='<html><head><style>body { color: #error }</style></head></html>'\n",
    ),
    (
        "warmup_timeout",
        WARM + "[2026-01-01 10:12:43] Initialization failed. warmup error: Traceback (most recent call last):\n  "
        'File "/venv/requests/adapters.py", line 9, in send\nrequests.exceptions.ReadTimeout: '
        "HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out. (read timeout=600)\n",
    ),
    (
        "watchdog_timeout",
        WARM + "[2026-01-01 10:06:43 TP0] Watchdog timeout (self.watchdog_timeout=300)\n[2026-01-01 10:06:50] "
        "Received sigquit from a child process. It usually means the child failed.\n",
    ),
    ("nan_logits", WARM + LOOPF + "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0\n"),
    ("sglang_bug", WARM + LOOPF + "AttributeError: 'ScheduleBatch' object has no attribute 'foo'\n"),
    (
        "load_timeout",
        "server started on [0.0.0.0]:10004\nTraceback (most recent call last):\n  File "
        '"/venv/rpyc/core/async_.py", line 55, in wait\nTimeoutError: result expired\n',
    ),
]


@pytest.mark.parametrize(
    ("cause", "log"), CASES, ids=["%s-%d" % (cause, index) for index, (cause, _log) in enumerate(CASES)]
)
def test_template(cause: str, log: str) -> None:
    verdict = diagnose(log.encode())
    assert verdict.outcome == "failed"
    assert verdict.cause == cause, verdict.evidence


HARMLESS = [
    "[2026-01-01 10:00:06 TP0] Setup Custom allreduce failed with CUDART error: peer access is not "
    "supported between these two devices. To silence this warning, specify "
    "disable_custom_all_reduce=True explicitly.",
    "[2026-01-01 10:00:06 TP0] Ignore import error when loading sglang.srt.models.x: No module named 'y'",
    "WARNING 01-01 10:00:06 _custom_ops.py:19] Failed to import from vllm._C with "
    "ImportError('libcuda.so.1: cannot open shared object file')",
    "[W socket.cpp:697] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
    "/venv/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: The NVIDIA driver on your "
    "system is too old (found version 12020).",
    "Skipping import of cpp extensions due to undefined symbol: _ZN3c10foo",
    "[2026-01-01 10:00:06] Failed to load generation config for /models/a",
    '[2026-01-01 10:00:06] INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable',
    "[2026-01-01 10:00:06 TP0] Using default MoE kernel config. Performance might be sub-optimal! Config "
    "file not found at /x.json",
    "[2026-01-01 10:00:06] User-specified context_length (65536) is greater than the derived context_length (32768).",
    "E0101 10:00:06.000000 1 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register "
    "factory for plugin cuDNN when one has already been registered",
    "[2026-01-01 10:00:06 TP0] max_mamba_cache_size=512",
    "[2026-01-01 10:00:06] Scheduler or DataParallelController 77 terminated with 0",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_are_no_failure(line: str) -> None:
    assert diagnose((DIST + line + "\n").encode()).outcome == "in_progress"
    verdict = diagnose(
        (
            DIST + line + "\n" + WARM + line + "\n[2026-01-01 10:00:44] The server is fired up and ready to roll!\n"
        ).encode()
    )
    assert verdict.outcome == "ready"
    assert verdict.cause is None


@pytest.mark.parametrize("cut", [ARGS, DIST, LOAD, KV, GRAPH, HTTP, WARM])
def test_a_start_without_a_failure_is_in_progress(cut: str) -> None:
    assert diagnose(cut.encode()).outcome == "in_progress"


MORE = [
    (
        "kernel_abi_mismatch",
        GRAPH
        + GRAPHF
        + "NotImplementedError: Could not run 'sgl_kernel::rmsnorm' with arguments from the 'CUDA' backend.\n",
    ),
    (
        "import_missing_package",
        IMPORT + "importlib.metadata.PackageNotFoundError: No package metadata was found for flashinfer\n",
    ),
    (
        "backend_unsupported",
        LOAD
        + trace(RUN)
        + "ValueError: Attention backend 'sage' is not supported by this attention layer; use another.\n",
    ),
    (
        "args_invalid_combination",
        KV + trace(RUN) + "AssertionError: multi-layer drafts require speculative_num_draft_tokens == 6, got 8\n",
    ),
    (
        "args_invalid_value",
        HTTP + "[2026-01-01 10:00:43] ERROR:    [Errno 99] error while attempting to bind on address "
        "('192.0.2.7', 30000): cannot assign requested address\n",
    ),
    (
        "permission_denied",
        HTTP + "[2026-01-01 10:00:43] ERROR:    [Errno 13] error while attempting to bind on address "
        "('0.0.0.0', 80): permission denied\n",
    ),
    (
        "rendezvous_failed",
        DIST
        + trace(RUN)
        + "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: Timeout waiting for key: "
        "default_pg/0/0 after 1800000 ms\n",
    ),
    ("no_gpu", 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'),
    (
        "draft_model",
        WARM
        + trace(RUN, "sglang/srt/speculative/eagle_worker.py:draft")
        + "RuntimeError: The size of tensor a (8640) must match the size of tensor b (5760) at "
        "non-singleton dimension 1\n",
    ),
    (
        "no_gpu",
        DIST + trace(RUN) + "RuntimeError: CUDA unknown error - this may be due to an environment set up wrong\n",
    ),
    ("no_gpu", ARGS + MAIN + "RuntimeError: Failed to infer device type\n"),
    (
        "gpu_occupied",
        DIST + trace(RUN) + "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n",
    ),
    ("compute_capability", KV + trace(RUN) + "RuntimeError: mm: No compiled kernel for CUDA device capability: 120\n"),
    (
        "arch_unsupported",
        LOADF + "ValueError: Unrecognized configuration class <class 'a.b.FooConfig'> for this kind\n",
    ),
    (
        "import_missing_package",
        LOADF
        + "ImportError: This file requires the following packages that were not found in your environment: einops.\n",
    ),
    (
        "jit_toolchain",
        GRAPHF + "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n",
    ),
    (
        "hf_offline",
        trace(RUN, "huggingface_hub/utils/_http.py:backoff") + "httpx.ConnectError: [Errno -3] Temporary failure\n",
    ),
    # words that other people's logs had (their sentences are not here, only their shapes)
    ("driver_too_old", GRAPHF + "RuntimeError: CUDA error code=35(b'cudaErrorInsufficientDriver')\n"),
    (
        "package_version_mismatch",
        ARGF + "RuntimeError: CRITICAL WARNING: PyTorch 9.9.9 & CuDNN Compatibility Issue Detected\n",
    ),
    ("package_version_mismatch", IMPORT + "AttributeError: module 'aiter' has no attribute 'dtypes'\n"),
    (
        "package_version_mismatch",
        IMPORT + "ImportError: cannot import name \u2018build\u2019 from \u2018outlines.fsm\u2019 (/x/fsm.py)\n",
    ),
    (
        "package_version_mismatch",
        CONFF
        + "ValueError: Transformers version 4.1.0 is not supported for model /m or model type m. Please upgrade\n",
    ),
    ("jit_toolchain", GRAPHF + "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/" + "x" * 300 + "\n"),
    (
        "jit_toolchain",
        GRAPHF + "RuntimeError: it did not build\n/usr/bin/ld: cannot find -lcudart: No such file or directory\n",
    ),
    (
        "backend_unsupported",
        "AssertionError: Only {'a', 'b'} backends are supported on Blackwell GPUs for hybrid models. Got c.\n",
    ),
    ("backend_unsupported", "AssertionError: apply_something is not supported for Flashinfer\n"),
    ("dtype_mismatch", "tvm.error.InternalError: Check failed: w.dtype() == dl_float8 (int8 vs. float8) : w must be\n"),
    (
        "oom_graph_capture",
        "worker-1  | Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1\n",
    ),
    ("weight_mismatch", "KeyError: 'model.layers.78.mlp.gate_up_proj.weight'\n"),
    ("draft_model", LOADF + "KeyError: 'midlayer.self_attn.qkv_proj.weight'\n"),
    ("kernel_abi_mismatch", "/x/common_ops.cpython-313-x86_64-linux-gnu.so: undefined symbol: numa_get_membind\n"),
    ("no_gpu", ARGF + "RuntimeError: nvidia-smi not found. Ensure NVIDIA drivers are installed and accessible.\n"),
    ("args_invalid_value", LOADF + "ValueError: Unknown load_format: something\n"),
    ("args_invalid_combination", "AssertionError: Currently HybridThing does not support speculative decoding.\n"),
    (
        "mm_processor",
        trace(RUN) + "AttributeError: 'LlamaTokenizerFast' object has no attribute 'image_processor'\n",
    ),
    ("custom_allreduce_p2p", "RuntimeError: CUDART error: peer access is not supported between these two devices\n"),
    (
        "rendezvous_failed",
        DIST
        + "[rank3]:[E101 10:00:43.4 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with [x.cc:1] no error\n"
        + trace(RUN),
    ),
    ("rdma_transport", LOAD + "/x/nvshmem/src/host/transport/transport.cpp:400: non-zero status: 7\n"),
    ("nccl_error", DIST + "h1:139:1092 [7] socket.c:485 NCCL WARN socketConnect: Connect to 192.0.2.1<3> failed : x\n"),
    ("sglang_bug", GRAPHF + "RuntimeError: shape mismatch: value tensor of shape [512, 2] cannot be broadcast\n"),
    # the start of a traceback whose rest is lost
    (
        "warmup_request_failed",
        WARM + "[2026-01-01 10:01:00] Initialization failed. warmup error: Traceback (most recent call last):\n",
    ),
    (
        "storage_error",
        LOADF + "safetensors_rust.SafetensorError: Error while reading: Input/output error (os error 5)\n",
    ),
]


@pytest.mark.parametrize(("cause", "log"), MORE, ids=[cause for cause, _log in MORE])
def test_more_templates(cause: str, log: str) -> None:
    test_template(cause, log)


PLACES = [  # where a check was written, its words, what it is about
    ("layers/quantization/gptq.py:__init__", "ValueError: Only 4-bit is supported", "quant_unsupported"),
    ("layers/quantization/fp8.py:get_quant_method", "NotImplementedError: cannot do this layer", "quant_unsupported"),
    ("layers/attention/a_backend.py:__init__", "ValueError: This one requires 64 heads", "backend_unsupported"),
    ("layers/moe/topk.py:select", "AssertionError: Only softmax is known here", "backend_unsupported"),
    ("multimodal/processors/a.py:__init__", "ValueError: Unknown mode x", "mm_processor"),
    ("model_loader/loader.py:load_model", "ValueError: Invalid shard layout", "weight_mismatch"),
    ("models/a.py:load_weights", "RuntimeError: Unsupported packing", "weight_mismatch"),
    ("models/a.py:__init__", "ValueError: Unsupported gate x. Only silu is known", "arch_unsupported"),
    ("models/a.py:__init__", "AssertionError: A does not support pipeline parallel", "args_invalid_combination"),
    ("layers/rotary_embedding.py:get_rope", "ValueError: Unknown RoPE scaling type", "arch_unsupported"),
    (
        "model_executor/a_runner.py:__init__",
        "AssertionError: AGraphRunner does not support b yet",
        "args_invalid_combination",
    ),
    ("lora/lora_manager.py:init_state", "AssertionError: you must specify --max-lora-rank", "args_invalid_combination"),
    ("environ.py:parse", 'ValueError: "x" is not valid: a boolean is required', "args_invalid_value"),
    # Python's own errors and torch's are no checks
    ("layers/attention/a_backend.py:__init__", "TypeError: cannot unpack non-iterable A object", "sglang_bug"),
    ("layers/linear.py:apply", "RuntimeError: Expected size for first two dimensions of batch2", "sglang_bug"),
    ("managers/scheduler.py:__init__", "IndexError: list index out of range", "sglang_bug"),
]


@pytest.mark.parametrize(("place", "words", "cause"), PLACES, ids=[place for place, _words, _cause in PLACES])
def test_a_check_that_no_row_knows_is_told_by_its_place(place: str, words: str, cause: str) -> None:
    verdict = diagnose((LOAD + trace(RUN, "sglang/srt/" + place) + words + "\n").encode())
    assert (verdict.outcome, verdict.cause, verdict.evidence["line"]) == ("failed", cause, words)


def test_words_that_a_row_knows_go_before_the_place() -> None:
    first = LOAD + trace(RUN, "sglang/srt/models/a.py:__init__") + "ValueError: Only x is supported here\n"
    later = trace(RUN, rank=" TP1") + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert diagnose((first + later).encode()).cause == "oom_load_weights"


@pytest.mark.parametrize(
    "before",
    ["    ", "[SERVER] ", "0: ", "12: ", "1779264164797\t2026-01-01T08:02:44.797Z\t"],
    ids=["indented", "tag", "srun --label", "srun of two digits", "two stamps"],
)
def test_what_is_put_before_every_line(before: str) -> None:
    log = "".join(before + line + "\n" for line in (LOAD + LOADF + "AssertionError\n").splitlines())
    verdict = diagnose(log.encode())
    assert (verdict.outcome, verdict.cause) == ("failed", "weight_mismatch"), verdict
    assert len(verdict.evidence["frames"]) == 3


@pytest.mark.parametrize("stamp", ["[01-01 10:00:09] ", "[ TP2] ", "[TP2 EP2] ", "[2026-01-01] "])
def test_a_stamp_that_lacks_a_part_is_one(stamp: str) -> None:
    tail = trace(RUN, "sglang/srt/model_executor/model_runner.py:load_model").partition("\n")[2]
    log = LOAD + stamp + "Scheduler hit an exception: Traceback (most recent call last):\n" + tail
    assert diagnose((log + "KeyError: 'model.norm.weight'\n").encode()).cause == "weight_mismatch"


@pytest.mark.parametrize(
    "before",
    [
        "2026-01-01 10:01:00,596 - __main__ - INFO - ",
        "[2026-01-01T10:01:00.703Z] ",
        "(Engine pid=7) ERROR 01-01 10:01:00 [core.py:1108] ",
    ],
)
def test_a_traceback_of_which_every_line_is_stamped(before: str) -> None:
    log = "".join(before + line + "\n" for line in (LOAD + LOADF + "KeyError: 'model.norm.weight'\n").splitlines())
    verdict = diagnose(log.encode())
    assert (verdict.outcome, verdict.cause) == ("failed", "weight_mismatch")
    assert len(verdict.evidence["frames"]) == 3


def test_what_nccl_tells_of_itself_is_no_failure() -> None:
    line = (
        "node1:437:785 [2] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared "
        "object file\n"
    )
    assert diagnose((DIST + line).encode()).outcome == "in_progress"


def test_a_logging_error_in_the_signal_handler_is_no_root() -> None:
    log = LOAD + LOADF + "KeyError: 'model.norm.weight'\n\n--- Logging error ---\nTraceback (most recent call last):\n"
    log += (
        '  File "/usr/lib/logging/__init__.py", line 1163, in emit\nRuntimeError: reentrant call inside '
        "<_io.BufferedWriter name='<stderr>'>\n"
    )
    assert diagnose(log.encode()).cause == "weight_mismatch"
