# SPDX-License-Identifier: GPL-3.0-or-later
"""What libraries, containers and the system print around SGLang, by their own templates -> the cause."""

# ruff: noqa: E501

from __future__ import annotations

import pytest
from ansible_collections.llmhost.sglang.plugins.module_utils._startup.text import diagnose

ARGS = "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/models/a', port=30000)\n"

# cause, where it was raised ("file:function" by line), what is printed
CASES = [
    ("backend_unsupported", ("flash_attn/a.py:fwd",), "Error: Failed to initialize the TMA descriptor 801\n"),
    (
        "dtype_mismatch",
        ("deep_gemm/a.py:b",),
        "RuntimeError: Assertion error (/x/csrc/apis/gemm.hpp:201): b.scalar_type() == torch::kInt\n",
    ),
    ("dtype_mismatch", ("triton/a.py:b",), "AssertionError: Unsupported rhs dtype fp8e4nv\n"),
    (
        "mamba_pool",
        ("sglang/srt/a.py:b",),
        "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache.\n",
    ),
    (
        "draft_model",
        ("sglang/srt/a.py:b",),
        "AttributeError: 'FooForCausalLM' object has no attribute 'get_embed_and_head'\n",
    ),
    ("rdma_transport", ("nixl/a.py:b",), "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n"),
    ("host_oom_killed", (), "Out of memory: Killed process 163 (sglang::schedul) total-vm:1049kB, shmem-rss:250kB\n"),
    (
        "native_crash",
        (),
        "HW Exception by GPU node-1: An HSAIL operation resulted in a hardware exception. code: 0x1016\n",
    ),
    ("nan_logits", (), "block: [0,0,0], thread: [0,0,0] Assertion `NaN detected! draft` failed.\n"),
    (
        "watchdog_timeout",
        (),
        "[2026-01-01 10:05:00] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
        "[2026-01-01 10:05:01] Received sigquit from a child process. It usually means the child failed.\n",
    ),
    (
        "quant_unsupported",
        ("sgl_kernel/gemm.py:gptq",),
        "RuntimeError: Invalid thread config: thread_m_blocks = 1, x\n",
    ),
    (
        "file_missing",
        ("sglang/srt/a.py:b",),
        "sglang.srt.a.MaskMissing: channel mask file not found at '/models/no.safetensors'. Set it\n",
    ),
    ("rdma_transport", ("deep_ep/buffer.py:init",), "RuntimeError: Failed: CUDA error csrc/deep_ep.cu:279 'invalid'\n"),
    (
        "unknown_child_death",
        (),
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -3). If exit code is -9 (SIGKILL), x\n",
    ),
    (
        "kernel_abi_mismatch",
        (),
        "[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\nError details:\n"
        "- ImportError: /x/common_ops.abi3.so: undefined symbol: _ZNK2at10TensorBase\n"
        "- ModuleNotFoundError: No module named 'common_ops'\n",
    ),
    ("model_path_invalid", ("huggingface_hub/x.py:y",), "OSError: Repo id must be in the form 'a' or 'b':\n/x/y/z\n"),
    (
        "nan_logits",
        (),
        "/x/TensorCompare.cu:112: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion "
        "`probability tensor contains either `inf`, `nan` or element < 0` failed.\n",
    ),
    (
        "package_version_mismatch",
        ("sglang/srt/models/a.py:__init__", "transformers/configuration_utils.py:__getattribute__"),
        "AttributeError: 'FooConfig' object has no attribute 'rope_theta'\n",
    ),
    (
        "model_files_missing",
        ("transformers/modeling_utils.py:from_pretrained",),
        "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory /models/a.\n",
    ),
    (
        "model_path_invalid",
        ("transformers/configuration_utils.py:x",),
        "OSError: Can't load the configuration of '/models/a'. If you were trying to load it from 'https://huggingface.co/models', make sure you don't have a local directory with the same name.\n",
    ),
    (
        "tokenizer_failure",
        ("transformers/tokenization_utils_base.py:x", "sentencepiece/__init__.py:LoadFromFile"),
        "TypeError: not a string\n",
    ),
    (
        "hf_offline",
        ("huggingface_hub/file_download.py:x",),
        "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/a/b\n",
    ),
    (
        "hf_offline",
        ("huggingface_hub/file_download.py:xet_get",),
        "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status server error (502 Bad Gateway)\n",
    ),
    (
        "hf_offline",
        ("huggingface_hub/file_download.py:x",),
        "requests.exceptions.ReadTimeout: (ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), '(Request ID: x)')\n",
    ),
    (
        "nccl_error",
        ("sglang/srt/distributed/device_communicators/pynccl_wrapper.py:NCCL_CHECK",),
        "RuntimeError: NCCL Error 2: unhandled system error\n",
    ),
    (
        "sglang_bug",
        ("sglang/srt/models/llama.py:forward",),
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!\n",
    ),
    (
        "no_gpu",
        ("torch/cuda/__init__.py:_lazy_init",),
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 999: unknown error\n",
    ),
    (
        "gpu_occupied",
        ("torch/cuda/__init__.py:_lazy_init",),
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 2: out of memory\n",
    ),
    (
        "oom_load_weights",
        ("sglang/srt/layers/linear.py:apply",),
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
    ),
    (
        "rendezvous_failed",
        ("sglang/srt/distributed/parallel_state.py:init",),
        "OSError: [Errno 113] No route to host\n",
    ),
    (
        "rendezvous_failed",
        ("torch/distributed/rendezvous.py:_create_c10d_store",),
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (node0, 20000). The IPv4 network addresses of (node0, 20000) cannot be retrieved (gai error: -2 - Name or service not known).\n",
    ),
    ("package_version_mismatch", (), "ImportError: numpy.core.multiarray failed to import\n"),
    ("package_version_mismatch", (), "AttributeError: _ARRAY_API not found\n"),
    (
        "missing_shared_lib",
        ("triton/backends/nvidia/driver.py:libcuda_dirs",),
        "AssertionError: libcuda.so cannot found!\n",
    ),
    (
        "compute_capability",
        ("triton/compiler/compiler.py:_init_handles",),
        "RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n",
    ),
    (
        "jit_toolchain",
        ("flashinfer/jit/cpp_ext.py:run_ninja",),
        "RuntimeError: Ninja build failed. Ninja output:\nninja: build stopped: subcommand failed.\n",
    ),
    (
        "compute_capability",
        ("sglang/srt/layers/quantization/w8a8_int8.py:apply",),
        "NotImplementedError: No implemented int8_scaled_mm for current compute capability: 120\n",
    ),
    (
        "compute_capability",
        ("sgl_kernel/gemm.py:fp8_scaled_mm",),
        "NotImplementedError: No implemented fp8_scaled_mm for current compute capability\n",
    ),
    ("backend_unsupported", ("sgl_kernel/attention.py:cutlass_mla_decode",), "RuntimeError: Error Internal\n"),
    (
        "backend_unsupported",
        ("flashinfer/gemm.py:x",),
        "RuntimeError: Failed to run cutlass FP4 gemm on sm120. Error: Error Internal\n",
    ),
    (
        "backend_unsupported",
        ("flashinfer/fused_moe/core.py:x",),
        "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm. Error: Error Internal (x.inl:1)\n",
    ),
    (
        "jit_toolchain",
        ("deep_gemm/utils.py:x",),
        "RuntimeError: Assertion error (csrc/jit/compiler.hpp:135): NVCC version must be >= 12.3\n",
    ),
    (
        "compute_capability",
        ("deep_gemm/__init__.py:x",),
        'RuntimeError: Assertion error (csrc/apis/gemm.hpp:90): false and "Unsupported architecture"\n',
    ),
    (
        "compute_capability",
        ("torch/cuda/__init__.py:x",),
        "RuntimeError: HIP error: hipErrorNoBinaryForGpu: Unable to find code object for all current devices!\n",
    ),
    ("sglang_bug", (), "Memory access fault by GPU node-3 (Agent handle: 0x5) on address 0x7f. Reason: Unknown.\n"),
    (
        "driver_too_old",
        (),
        "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver to a newer version, or use an earlier cuda container: unknown.\n",
    ),
    (
        "no_gpu",
        (),
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown.\n",
    ),
    (
        "port_in_use",
        (),
        "docker: Error response from daemon: driver failed programming external connectivity on endpoint x: Bind for 0.0.0.0:30000 failed: port is already allocated.\n",
    ),
    ("disk_full", (), "docker: failed to register layer: write /x: no space left on device.\n"),
    (
        "broken_install",
        (),
        "sglang-a.service: Failed to locate executable /opt/llmhost/runtime/bin/python: No such file or directory\nsglang-a.service: Failed at step EXEC spawning /opt/llmhost/runtime/bin/python: No such file or directory\n",
    ),
    (
        "model_path_invalid",
        ("transformers/x.py:y",),
        "NotADirectoryError: [Errno 20] Not a directory: '/models/a.gguf/config.json'\n",
    ),
    (
        "weights_corrupt",
        ("sglang/srt/model_loader/weight_utils.py:x",),
        "safetensors_rust.SafetensorError: Error while deserializing header: header too large\n",
    ),
    (
        "weights_corrupt",
        ("sglang/srt/model_loader/weight_utils.py:x",),
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered\n",
    ),
    ("weights_corrupt", ("torch/serialization.py:load",), "_pickle.UnpicklingError: invalid load key, 'v'.\n"),
    (
        "quant_mismatch",
        ("sglang/srt/configs/model_config.py:_verify_quantization",),
        "ValueError: Unknown quantization method: gguf2. Must be one of ['awq'].\n",
    ),
    ("args_invalid_value", (), "launch_server.py: error: argument --dtype: expected one argument\n"),
    (
        "trust_remote_code",
        ("transformers/dynamic_module_utils.py:resolve_trust_remote_code",),
        "ValueError: The repository `/models/a` contains custom code which must be executed to correctly load the model. You can inspect the repository content at https://hf.co//models/a.\nPlease pass the argument `trust_remote_code=True` to allow custom code to be run.\n",
    ),
    (
        "tokenizer_failure",
        ("transformers/convert_slow_tokenizer.py:x",),
        "ValueError: Converting from SentencePiece and Tiktoken failed, if a converter for SentencePiece is available, provide a model path with a SentencePiece tokenizer.model file.Currently available slow->fast convertors: []\n",
    ),
    (
        "tokenizer_failure",
        ("transformers/tokenization_utils_fast.py:__init__",),
        "Exception: data did not match any variant of untagged enum ModelWrapper at line 757443 column 3\n",
    ),
    (
        "tokenizer_failure",
        ("sglang/srt/hf_transformers_utils.py:get_tokenizer",),
        "AttributeError: 'list' object has no attribute 'keys'\n",
    ),
    (
        "package_version_mismatch",
        ("transformers/models/auto/configuration_auto.py:x",),
        "ImportError: cannot import name 'AutoModelForImageTextToText' from 'transformers' (/x)\n",
    ),
    (
        "chat_template",
        ("sglang/srt/managers/template_manager.py:load",),
        "RuntimeError: Chat template foo is not a built-in template name or a valid chat template file path.\n",
    ),
    ("permission_denied", (), "PermissionError: [Errno 13] Permission denied: '/root/.cache/huggingface/hub'\n"),
    ("disk_full", ("triton/runtime/cache.py:put",), "OSError: [Errno 28] No space left on device\n"),
    (
        "shm_ulimit",
        ("torch/multiprocessing/x.py:y",),
        "RuntimeError: unable to open shared memory object </torch_1> in read-write mode: No space left on device (28)\n",
    ),
    (
        "shm_ulimit",
        (),
        "RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.\n",
    ),
    (
        "warmup_timeout",
        (),
        "[2026-01-01 10:10:00] Initialization failed. warmup error: Traceback (most recent call last):\n  File \"/x/sglang/srt/entrypoints/http_server.py\", line 9, in _execute_server_warmup\nrequests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out. (read timeout=600)\n",
    ),
    (
        "args_invalid_combination",
        ("sglang/srt/server_args.py:check",),
        "AssertionError: The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive and cannot be used at the same time. Please use only one of them.\n",
    ),
    (
        "kv_cache_no_memory",
        ("sglang/srt/model_executor/model_runner.py:init_memory_pool",),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
    ),
    (
        "host_memory_alloc",
        ("sglang/srt/mem_cache/memory_pool_host.py:__init__",),
        "ValueError: Not enough host memory available. Requesting 100.00 GB but only have 50.00 GB free. Please reduce the size of the hierarchical cache.\n",
    ),
    (
        "driver_too_old",
        (),
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver\n",
    ),
    (
        "gpu_count_insufficient",
        ("torch/cuda/__init__.py:set_device",),
        "RuntimeError: CUDA error: invalid device ordinal\n",
    ),
    (
        "nccl_error",
        ("torch/distributed/distributed_c10d.py:x",),
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:93, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 'out of memory'\n",
    ),
    ("native_crash", (), "Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n"),
    (
        "rdma_transport",
        ("sglang/srt/disaggregation/mooncake/transfer_engine.py:initialize",),
        "RuntimeError: Mooncake Transfer Engine initialization failed.\n",
    ),
    (
        "import_missing_package",
        ("sglang/srt/disaggregation/mooncake/transfer_engine.py:__init__",),
        "ImportError: Please install mooncake by following the instructions at https://github.com/kvcache-ai/Mooncake/blob/main/doc/en/build.md to run SGLang with MooncakeTransferEngine.\n",
    ),
    (
        "torch_compile_error",
        ("torch/_dynamo/x.py:y",),
        "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(x)\n",
    ),
    (
        "jit_toolchain",
        ("triton/runtime/build.py:_build",),
        "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1 exit status\nsubprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-O3', '-shared', '-lcuda']' returned non-zero exit status 1.\n",
    ),
    (
        "jit_toolchain",
        ("triton/runtime/build.py:_build",),
        "/tmp/x/main.c:6:10: fatal error: Python.h: No such file or directory\nsubprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c']' returned non-zero exit status 1.\n",
    ),
    (
        "args_invalid_combination",
        ("sglang/srt/lora/lora_manager.py:init",),
        "ValueError: LoRA adapter x rank 128 exceeds the configured max_lora_rank 64\n",
    ),
    (
        "args_invalid_combination",
        ("sglang/srt/speculative/eagle_worker.py:__init__", "sglang/srt/model_loader/loader.py:load_model"),
        "ValueError: Speculative draft model path is required\n",
    ),
    (
        "oom_load_weights",
        ("sglang/srt/model_executor/model_runner.py:load_model",),
        "torch.AcceleratorError: CUDA error: out of memory\n",
    ),
    (
        "oom_kv_or_runtime_pool",
        ("sglang/srt/mem_cache/memory_pool.py:_create_buffers",),
        "RuntimeError: NPU out of memory. NPUWorkspaceAllocator tried to allocate 1.00 GiB\n",
    ),
    (
        "driver_too_old",
        ("torch/cuda/__init__.py:x",),
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n",
    ),
    (
        "no_gpu",
        ("torch/cuda/__init__.py:x",),
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n",
    ),
]


def log(frames: tuple[str, ...], told: str) -> str:
    if not frames:
        return ARGS + told
    lines = ["[2026-01-01 10:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):"]
    for frame in ("sglang/srt/managers/scheduler.py:run_scheduler_process", *frames):
        name, _colon, function = frame.rpartition(":")
        lines += ['  File "/v/site-packages/%s", line 9, in %s' % (name, function), "    call(it)"]
    return ARGS + "\n".join(lines) + "\n" + told


@pytest.mark.parametrize(
    ("cause", "frames", "told"), CASES, ids=[case[2].strip().splitlines()[-1][:60] for case in CASES]
)
def test_wording(cause: str, frames: tuple[str, ...], told: str) -> None:
    verdict = diagnose(log(frames, told).encode())
    assert (verdict.outcome, verdict.cause) == ("failed", cause), verdict.evidence
    assert "{" not in verdict.message
