# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes in memory: of the GPU, of the host, of the disk, of /dev/shm."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

# torch's sentence, with the numbers in it.
_OOM = (
    r"(?:OutOfMemoryError|OutOfMemory|RuntimeError: (?:CUDA|HIP|NPU|XPU) out of memory|(?:CUDA|HIP|NPU|"
    r"XPU|MUSA) out of memory|CUDA error: out of memory|"
    r"hipErrorOutOfMemory|cudaErrorMemoryAllocation|NV_ERR_NO_MEMORY|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|"
    r"HSA_STATUS_ERROR_OUT_OF_RESOURCES)"
    r"(?:[^\n]{0,60}Tried to allocate (?P<asked>[\d.]+ [KMGT]iB)(?:[^\n]{0,40}GPU "
    r"(?P<gpu>\d+)[^\n]{0,60}?total capac?i?ty of (?P<total>[\d.]+ [KMGT]iB)[^\n]{0,20}?of which "
    r"(?P<free>[\d.]+ [KMGT]iB) is free)?)?"
)
_LOWER = r(
    "lower_fraction",
    "Lower --mem-fraction-static, so that more is left for what comes after the pools.",
    {"mem_fraction_static": "<lower by 0.05>"},
)

ROWS = (
    Cause(
        id="gpu_occupied",
        meaning="Another process holds memory of the GPU.",
        message="The GPU is occupied by another process: {problem}.",
        patterns=(
            p(r"(?P<problem>GPU (?:\d+ )?is occupied by another process[^\n]{0,100})"),
            # a card in the compute mode EXCLUSIVE_PROCESS that somebody uses, or one in MIG mode without an instance
            p(r"(?P<problem>CUDA-capable device\(s\) is/are busy or unavailable)"),
            p(r"cudaGetDeviceCount\(\)[^\n]{0,300}(?P<problem>Error 2: out of memory)"),
        ),
        misleading=("the same texts as for too little memory",),
        remedies=(
            r(
                "free_gpu",
                "Stop what holds the GPU (often sglang::scheduler processes that were left behind) and "
                "prove that its memory is free.",
                host_action="gpu_clean",
            ),
        ),
        not_remedies=("Any option of SGLang: the memory is not this server's.", "Raising --mem-fraction-static."),
        retryable=True,
        examples=(
            "[2026-01-01 10:00:00] Load weight begin. avail mem=7.10 GB\nTraceback (most recent call "
            'last):\n  File "/x/sglang/srt/model_executor/model_runner.py", line 9, in load_model\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total "
            "capacity of 79.15 GiB of which 174.00 MiB is free. Process 4711 has 71.66 GiB memory in "
            "use. Process 4712 has 7.20 GiB memory in use.",
        ),
        tier=3,
    ),
    Cause(
        id="memory_unbalanced",
        meaning="The ranks do not have the same free memory.",
        message="The GPUs of this server have different amounts of free memory.",
        patterns=(p(r"(?:ValueError|RuntimeError): The memory capacity is unbalanced"),),
        misleading=("false for drafts and for unequal cards; a decoy where it is only a warning",),
        remedies=(
            r("free_gpu", "Stop what holds memory on the fuller GPU.", host_action="gpu_clean"),
            r("equal_cards", "Use cards of the same size for one server."),
            r(
                "no_check",
                "Switch the check off where the difference is known: SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK=1.",
                host_action="environment SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK=1",
            ),
        ),
        not_remedies=("Changing --mem-fraction-static.",),
        retryable=True,
        examples=(
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
            "processes. min_per_gpu_memory=8.8",
        ),
        tier=3,
    ),
    Cause(
        id="kv_cache_no_memory",
        meaning="After the weights no memory is left for the KV cache.",
        message="After loading the weights no memory is left for the KV cache.",
        patterns=(
            p(
                r"(?:RuntimeError|ValueError): Not enought? memory\. Please try to increase "
                r"--mem-fraction-static(?:[^\n]{0,40}[Cc]urrent value: (?P<fraction>[\d.]+)|"
                r"[^\n]{0,60}mem_fraction_static=(?P<fraction2>[\d.]+))?"
            ),
            p(
                r"Loaded weights leave no (?:GPU )?memory for the KV cache under "
                r"--mem-fraction-static=(?P<fraction>[\d.e+-]+)(?:\. Raise --mem-fraction-static above "
                r"(?P<needed>[\d.]+))?"
            ),
            p(
                r"(?:RuntimeError|ValueError|AssertionError): .{0,80}(?:No|no|not enough) (?:available |"
                r"GPU )?memory .{0,40}(?:KV|kv)[ _-]?cache"
            ),
            p(
                r"(?:RuntimeError|ValueError): .{0,80}max_total_num_tokens.{0,40}(?:<=|less than|too "
                r"small|not positive)"
            ),
        ),
        misleading=("the advice is right only if the card is empty and the weights fit",),
        remedies=(
            r(
                "raise_fraction",
                'If the card was empty at "Load weight begin": raise --mem-fraction-static.',
                {"mem_fraction_static": "<higher by 0.05>"},
            ),
            r("shorter_context", "Shorten --context-length.", {"context_length": "<shorter>"}),
            r("more_gpus", "Spread the model over more GPUs, or use a quantised checkpoint.", {"tp_size": "<more>"}),
        ),
        not_remedies=("Raising the fraction when another process or a second rank holds the card.",),
        examples=("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.5",),
        tier=3,
        versions="all; from 0.5.3 on the sentence also tells the current value",
    ),
    Cause(
        id="mamba_pool",
        meaning="The state cache of a hybrid model is too small.",
        message="The state cache of this hybrid model is too small.",
        patterns=(
            p(r"state cache is too small to serve[^\n]{0,80}max_mamba_cache_size=(?P<size>\d+)"),
            p(r"state cache is too small to serve"),
            p(r"Not enough (?:GPU )?(?:space|memory) for (?:the )?(?:mamba|hybrid|linear)"),
            p(r"max_mamba_cache_size.{0,60}(?:must be|should be|too small)", kind="exception"),
        ),
        misleading=("max_mamba_cache_size= also appears in harmless lines",),
        remedies=(
            r(
                "mamba_size",
                "Raise --max-mamba-cache-size, or --mamba-full-memory-ratio.",
                {"max_mamba_cache_size": "<larger>"},
            ),
        ),
        not_remedies=("Starting again: the value is derived from free memory, so that it may work by chance.",),
        retryable=True,
        examples=("RuntimeError: The state cache is too small to serve any requests. max_mamba_cache_size=1",),
        tier=3,
        versions="the sentence on the state cache from 0.5.13 on",
    ),
    Cause(
        id="oom_graph_capture",
        meaning="The GPU ran out of memory while the CUDA graphs were captured.",
        message="Capturing the CUDA graphs needs more memory than is left ({asked} asked, {free} free).",
        patterns=(
            p(_OOM, phases=("graph_capture", "compile")),
            p(_OOM, frames=r"cuda_graph_runner|init_cuda_graphs|graph_runner\.py"),
            p(r"[Cc]apture [^\n]{0,40}graphs? failed: [^\n]{0,80}?" + _OOM),
        ),
        remedies=(
            r("lower_fraction", "Lower --mem-fraction-static.", {"mem_fraction_static": "<lower by 0.05>"}),
            r("smaller_graphs", "Lower --cuda-graph-max-bs.", {"cuda_graph_max_bs": "<smaller>"}),
        ),
        not_remedies=("Raising --mem-fraction-static.",),
        examples=(
            "[2026-01-01 10:00:00] Load weight begin. avail mem=78.50 GB\n[2026-01-01 10:00:10] Load "
            "weight end. type=LlamaForCausalLM\n[2026-01-01 10:00:12] Capture cuda graph begin. avail "
            "mem=1.00 GB\nTraceback (most recent call last):\n  File "
            '"/x/sglang/srt/model_executor/cuda_graph_runner.py", line 9, in capture\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total "
            "capacity of 95.00 GiB of which 380.31 MiB is free.",
        ),
        tier=3,
    ),
    Cause(
        id="oom_load_weights",
        meaning="The weights do not fit on the GPU.",
        message="The weights do not fit: {asked} were asked for, {free} of {total} were free on GPU {gpu}.",
        patterns=(
            p(_OOM, phases=("import", "args", "init_distributed", "load_weights")),
            p(
                _OOM,
                frames=r":(?:load_model|create_weights|process_weights_after_loading|load_weights|"
                r"initialize_model|_initialize_model)$",
                phases=("load_weights",),
            ),
        ),
        remedies=(
            r("more_gpus", "Use more GPUs (--tp-size) or bigger ones.", {"tp_size": "<more>"}),
            r("quantised", "Use a quantised checkpoint.", {"model_path": "<a quantised checkpoint>"}),
        ),
        not_remedies=(
            "Lowering --mem-fraction-static: it has no effect while weights are loaded.",
            "--disable-cuda-graph.",
        ),
        examples=(
            "[2026-01-01 10:00:00] Load weight begin. avail mem=15.10 GB\nTraceback (most recent call "
            'last):\n  File "/x/sglang/srt/model_executor/model_runner.py", line 9, in load_model\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 114.00 MiB. GPU 0 has a total "
            "capacity of 15.58 GiB of which 54.38 MiB is free.",
        ),
        tier=3,
    ),
    Cause(
        id="oom_kv_or_runtime_pool",
        meaning="A pool or workspace could not be allocated after the weights were loaded.",
        message="After loading the weights a pool or workspace did not fit ({asked} asked, {free} free).",
        patterns=(p(_OOM, phases=("kv_cache", "http", "warmup", "runtime")),),
        misleading=("the same text as for weights and graphs",),
        remedies=(
            r(
                "shorter_context",
                "Shorten --context-length, or cap --max-total-tokens.",
                {"context_length": "<shorter>"},
            ),
            _LOWER,
            r("smaller_prefill", "Lower --chunked-prefill-size.", {"chunked_prefill_size": "<half>"}),
        ),
        not_remedies=("Raising --mem-fraction-static.",),
        examples=(
            "[2026-01-01 10:00:00] Load weight begin. avail mem=78.50 GB\n[2026-01-01 10:00:10] Load "
            "weight end. type=LlamaForCausalLM\nTraceback (most recent call last):\n  File "
            '"/x/sglang/srt/mem_cache/memory_pool.py", line 9, in _create_buffers\n'
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 1 has a total "
            "capacity of 23.51 GiB of which 22.62 MiB is free.",
        ),
        tier=3,
    ),
    Cause(
        id="shm_ulimit",
        meaning="/dev/shm or a limit of the process is too small.",
        message="Shared memory (/dev/shm) or a limit of the process is too small.",
        patterns=(
            p(r"Error while creating shared memory segment (?P<segment>/dev/shm/\S{1,80})(?: \(size (?P<size>\d+)\))?"),
            p(
                r"unable to (?:open|write|allocate) (?:to )?(?:shared memory|file) .{0,60}/dev/shm|"
                r"unable to (?:open|resize|allocate) shared memory object|"
                r"/dev/shm.{0,80}(?:No space left|too small|Disk quota)"
            ),
            p(r"Too many open files"),
            p(r"insufficient shared memory|out of shared memory|shm_open.{0,40}(?:failed|No space)"),
        ),
        misleading=('NCCL\'s "unhandled system error" is the line that one sees',),
        remedies=(
            r(
                "larger_shm",
                "Give the container a larger /dev/shm (--shm-size, --ipc=host, an emptyDir of medium "
                "Memory), or raise the unit's LimitNOFILE.",
                host_action="larger /dev/shm or LimitNOFILE",
            ),
        ),
        not_remedies=("Options of NCCL.",),
        examples=("Error while creating shared memory segment /dev/shm/nccl-abcdef (size 9637888)",),
        tier=3,
    ),
    Cause(
        id="disk_full",
        meaning="A file system is full.",
        message="No space is left on a file system that the server writes to.",
        patterns=(p(r"\[Errno 28\]|[Nn]o space left on device|ENOSPC|Disk quota exceeded|\[Errno 122\]"),),
        misleading=("a bus error may come first",),
        remedies=(
            r(
                "free_disk",
                "Free the file system, or point HF_HOME, TMPDIR and the compilers' caches to one with room.",
                host_action="free disk space",
            ),
        ),
        not_remedies=("Downloading again before there is room.",),
        examples=("OSError: [Errno 28] No space left on device",),
        tier=3,
    ),
    Cause(
        id="storage_error",
        meaning="The file system or disk below the model, or a cache, gives errors.",
        message="Reading or writing failed below the server: {problem}.",
        patterns=(
            p(
                r"(?P<problem>\[Errno (?:5|116|121|107|112)\] (?:Input/output error|Stale file handle|Remote I/O error|"
                r"Transport endpoint is not connected|Host is down)[^\n]{0,200})"
            ),
            p(r"(?P<problem>(?:Input/output|Remote I/O) error) \(os error (?:5|121)\)"),
        ),
        misleading=("the file looks damaged, and is whole once the storage is back",),
        remedies=(
            r(
                "mend_storage",
                "Look at the host's kernel log and at the mount (NFS server, disk); mount it again, then start.",
                host_action="mend the storage",
            ),
        ),
        not_remedies=("Downloading the model again onto the same storage.",),
        retryable=True,
        examples=(
            "OSError: [Errno 116] Stale file handle",
            "OSError: [Errno 5] Input/output error: '/models/m/model-00001-of-00004.safetensors'",
        ),
        tier=3,
    ),
    Cause(
        id="host_memory_alloc",
        meaning="The host refused memory: a limit of the process, or overcommit.",
        message="The host refused to give memory to the process.",
        patterns=(
            p(r"\[Errno 12\]|(?:OSError|RuntimeError|MemoryError).{0,60}Cannot allocate memory"),
            p(r"unable to mmap (?P<size>\d+) bytes"),
            p(
                r"^MemoryError|DefaultCPUAllocator: (?:can't|not enough) (?:allocate )?memory|"
                r"DefaultCPUAllocator: can't allocate"
            ),
            p(r"std::bad_alloc"),
            p(
                r"RuntimeError: (?:Resource temporarily unavailable|can't start new thread)|"
                r"BlockingIOError: \[Errno 11\]"
            ),
            p(r"(?:RuntimeError|ValueError): .{0,60}(?:[Nn]ot enough|[Ii]nsufficient) (?:host|CPU|system) memory"),
        ),
        remedies=(
            r(
                "host_memory",
                "Raise the limit (LimitAS, ulimit -v, the cgroup's memory, pids) or vm.overcommit_memory of the host.",
                host_action="raise the memory limit of the unit or container",
            ),
        ),
        not_remedies=("Options for the GPU's memory.",),
        examples=("OSError: [Errno 12] Cannot allocate memory",),
        tier=3,
    ),
)
