# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes that a process can no longer tell itself, and shapes of last resort."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

FIRST = (
    Cause(
        id="host_oom_killed",
        meaning="The host's memory ran out and the kernel killed a process of the server.",
        message="A process of the server was killed because the host (or its cgroup) ran out of memory.",
        patterns=(
            p(r"Killed process \d+ \(sglang", tier=2),  # the kernel names it
            p(r"Out of memory: Killed process|oom-kill|OOMKilled|oom_reaper|Memory cgroup out of memory"),
            p(r"FAILED: \[code=137\]"),
            p(r"died during initialization \(exit code: -9\)"),
            p(r"^(?:\[[^\]]{1,40}\] )?[Ee]xit code: -9\b"),
        ),
        misleading=(
            "no exception at all; EOFError comes last",
            "SGLang prints its hint at the OOM killer for every exit code",
            '"Killed" alone is usually SGLang\'s own doing',
        ),
        remedies=(
            r(
                "host_memory",
                "Look at dmesg and the cgroup's memory.events; give the host or the unit more memory, or "
                "fewer parallel compilers (MAX_JOBS).",
                host_action="more host memory or a higher MemoryMax",
            ),
            r(
                "less_host_memory",
                "Load with less host memory (fewer loader threads, no --hicache, no --cpu-offload-gb).",
                {"cpu_offload_gb": None},
            ),
        ),
        not_remedies=("Options for the GPU's memory.",),
        retryable=True,
        examples=(
            "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is "
            "-9 (SIGKILL), a common cause is the OS OOM killer.",
        ),
        tier=1,
        versions="all; a rank that died is reported from 0.3.6 on, as died during initialization from 0.5.10 on",
    ),
    Cause(
        id="permission_denied",
        meaning="A file or folder cannot be read or written by the service's user.",
        message="The service's user may not use {path}.",
        patterns=(
            p(r"bind on address \((?P<path>'[^']{0,60}', \d{1,5})[^)]{0,20}\): (?:\[errno \d+\] )?permission denied"),
            p(r"(?:PermissionError|OSError): \[Errno (?:13|1|30)\] [\w -]{1,40}(?:: '(?P<path>[^'\n]{1,400})')?"),
            p(
                r"(?:Permission denied|Read-only file system|Operation not permitted)(?: \(os error "
                r"\d+\))?[^\n]{0,20}(?:'(?P<path>/[^'\n]{1,300})')?",
                kind="exception",
            ),
            p(r"^\S{1,200}: Permission denied$"),
        ),
        remedies=(
            r(
                "permissions",
                "Give the service's user the right to read the model and to write its caches (HOME, "
                "HF_HOME, TRITON_CACHE_DIR, FLASHINFER_WORKSPACE_BASE).",
                host_action="permissions of the path",
            ),
        ),
        not_remedies=("Running the server as root.",),
        examples=("PermissionError: [Errno 13] Permission denied: '/.cache'",),
        tier=3,
    ),
)

_BUG = (
    r"(?:NameError|AttributeError|TypeError|UnboundLocalError|KeyError|IndexError|ValueError|AssertionError|"
    r"NotImplementedError|ZeroDivisionError|RuntimeError|pickle\.PicklingError|ImportError)"
)

ROWS = (
    Cause(
        id="gpu_fault",
        meaning="A GPU or its link broke down during the start.",
        message="A GPU broke down during the start: {problem}.",
        patterns=(
            p(
                r"CUDA error: (?P<problem>uncorrectable ECC error encountered|uncorrectable NVLink error[^\n]{0,80}|"
                r"GPU is lost|the launch timed out and was terminated)"
            ),
            p(r"(?P<problem>GPU (?:is lost|has fallen off the bus))"),
            p(r"NVRM: (?P<problem>Xid \([^)]{1,40}\): (?:48|64|74|79|95|119|120|140))\b"),
        ),
        misleading=("ranks on the other GPUs report NCCL errors or lost connections",),
        remedies=(
            r(
                "reset_gpu",
                "Look at the kernel log (NVRM, Xid) of the host that owns the card, then reset the GPU or reboot; "
                "where it comes back, have the card replaced.",
                host_action="GPU reset or reboot of the host",
            ),
        ),
        not_remedies=("Any option of SGLang or NCCL.", "Installing another version."),
        retryable=False,
        examples=(
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "RuntimeError: CUDA error: GPU is lost",
        ),
        tier=3,
    ),
    Cause(
        id="watchdog_timeout",
        meaning="The scheduler's watchdog saw no progress.",
        message="The scheduler made no progress for {seconds} s and its watchdog ended the server.",
        patterns=(
            p(r"[Ww]atchdog timeout \(self\.watchdog_timeout=(?P<seconds>[\d.]+)(?!, self\.soft=True)"),
            p(r"Watchdog timeout(?! \()"),
        ),
        misleading=('py-spy\'s "Permission Denied"',),
        remedies=(
            r(
                "look",
                "Look at what the stack dump waits for: NCCL (try --disable-custom-all-reduce, "
                "NCCL_P2P_DISABLE=1) or a compilation.",
                {"disable_custom_all_reduce": True},
            ),
        ),
        not_remedies=("Raising --watchdog-timeout alone.",),
        retryable=True,
        examples=("[2026-01-01 10:00:00 TP0] Watchdog timeout (self.watchdog_timeout=300)",),
        tier=1,
    ),
    Cause(
        id="native_crash",
        meaning="Native code crashed (SIGSEGV, SIGABRT, SIGBUS).",
        message="Native code crashed: {problem}.",
        patterns=(
            p(
                r"(?P<problem>Fatal Python error: (?:Segmentation fault|Aborted|Illegal instruction|"
                r"Floating point exception))"
            ),
            p(r"(?P<problem>Fatal Python error: Bus error)", tier=1),
            p(
                r"(?P<problem>Caught signal \d{1,2} \([^)\n]{1,60}\)|Segmentation fault|Bus error|"
                r"!!!!!!! Segfault encountered)",
                tier=1,
            ),
            p(r"(?P<problem>HSAIL operation resulted in a hardware exception)", tier=2),
            p(
                r"(?P<problem>exit code: -(?:4|6|7|8|11))\b|(?P<problem2>died during initialization "
                r"\(exit code: -(?:4|6|7|8|11)\))"
            ),
            p(r"(?P<problem>DataParallelController \d+ terminated with -(?:4|6|7|8|11))\b", tier=1),
            p(r"(?P<problem>(?:Aborted|Illegal instruction|Floating point exception) \(core dumped\))", tier=1),
            p(
                r"(?P<problem>terminate called after throwing an instance of[^\n]{0,120}|terminate called without)",
                tier=1,
            ),
            p(
                r"(?P<problem>(?:free\(\): invalid|double free or corruption|malloc\(\): |corrupted size "
                r"vs|munmap_chunk)[^\n]{0,60})"
            ),
        ),
        misleading=('the other ranks then report "Connection closed by peer"',),
        remedies=(
            r(
                "native_stack",
                "The native stack decides: NCCL (NCCL_DEBUG=INFO), a kernel package (version), the disk "
                "(bus error while loading).",
            ),
        ),
        not_remedies=("Options for memory.",),
        examples=(
            "Fatal Python error: Segmentation fault",
            "[2026-01-01 10:00:00] Scheduler or DataParallelController 77 terminated with -11",
        ),
        tier=2,
    ),
    Cause(
        id="scheduler_killed",
        meaning="A process of the server was ended from outside, or died without a word.",
        message="A process of the server died without an exception ({problem}).",
        patterns=(
            p(r"(?P<problem>[Ss]ubprocess \S{1,60} \(pid=\d+\) crashed with exit code -?\d+)"),
            p(r"(?P<problem>died during initialization \(exit code: -?(?!3\b|9\b|4\b|6\b|7\b|8\b|11\b)\d+\))"),
            p(r"(?P<problem>DataParallelController \d+ terminated with (?!0\b|-(?:4|6|7|8|11)\b)-?\d+)"),
        ),
        misleading=("the launcher of a node with another rank than 0 ends with 0 after it",),
        remedies=(
            r(
                "who",
                "Look who ended it: the journal of the host, dmesg, the exit status; a rerun with one "
                "rank shows whether it is this machine.",
                host_action="journalctl and dmesg of the host",
            ),
        ),
        not_remedies=("Options for the GPU's memory.",),
        retryable=True,
        examples=(
            "[2026-01-01 10:00:00] Subprocess scheduler_0 (pid=77) crashed with exit code -15. "
            "Triggering SIGQUIT for cleanup...",
            "[2026-01-01 10:00:00] Scheduler or DataParallelController 77 terminated with -9",
        ),
        tier=1,
    ),
    Cause(
        id="unknown_child_death",
        meaning="A rank vanished without a text.",
        message="A process of the server vanished without a text.",
        patterns=(
            p(r"leaked (?:shared_memory|semaphore) objects"),
            p(r"^(?:EOFError|BrokenPipeError)"),
            p(r"died during initialization \(exit code: -3\)"),  # SIGQUIT: SGLang ended it after a failure elsewhere
        ),
        remedies=(
            r(
                "host",
                "Look at dmesg and the container's limits, and start with one rank.",
                host_action="dmesg and limits of the container",
            ),
        ),
        retryable=True,
        examples=(
            "/x/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to "
            "be 1 leaked shared_memory objects to clean up at shutdown",
        ),
        tier=0,
    ),
    Cause(
        id="sglang_bug",
        meaning="A defect of this version of SGLang.",
        message="A defect of this SGLang version: {problem}.",
        patterns=(
            p(
                r"(?P<problem>device-side assert triggered|an illegal memory access was encountered|"
                r"misaligned address|unspecified launch failure|an illegal instruction was encountered|"
                r"shape mismatch: value tensor of shape[^\n]{0,120})"
            ),
            p(r"(?P<problem>Memory access fault by GPU node)", tier=2),  # AMD's word for it
            p(
                r"^TypeError: (?P<problem>\w{1,60}\(\)(?:: argument [^\n]{1,160}|"
                r"[^\n]{0,20}received an invalid combination[^\n]{0,200}))"
            ),
            p(
                r"^(?:\w+\.){0,6}(?P<problem>(?:NameError|AttributeError|UnboundLocalError|TypeError|"
                r"ZeroDivisionError|NotImplementedError|IndexError)\b[^\n]{0,300})",
                frames=r"sglang/",
            ),
            p(r"^(?P<problem>" + _BUG + r"\b[^\n]{0,300})", last=r"sglang/(?:srt/)?"),
        ),
        remedies=(r("other_version", "Use another version of SGLang; look for the exception's text in its issues."),),
        not_remedies=("Options for memory.",),
        examples=(
            "[2026-01-01 10:00:00 TP0] Load weight begin. avail mem=70 GB\n[2026-01-01 10:00:09 TP0] "
            "Load weight end. type=A\nTraceback (most recent call last):\n  File "
            '"/x/sglang/srt/managers/scheduler.py", line 9, in event_loop\nNameError: name '
            "'batch_size' is not defined",
        ),
        tier=0,
    ),
    # Causes without a text of their own: a stall names them by the phase and the last line (verdict.py).
    Cause(
        id="nccl_hang",
        meaning="NCCL hangs while it starts or in the first collective operation.",
        message="Silence since NCCL began to connect the GPUs.",
        patterns=(),
        remedies=(
            r(
                "p2p",
                "Try NCCL_P2P_DISABLE=1; check ACS and IOMMU of the host and the interface.",
                host_action="environment NCCL_P2P_DISABLE=1",
            ),
        ),
        not_remedies=("Waiting.",),
        examples=(),
        retryable=True,
    ),
    Cause(
        id="slow_start",
        meaning="No failure: the start is slow.",
        message="The start is slow, but goes on.",
        patterns=(),
        misleading=("a bar at 0 % for ten minutes", "100 % at once"),
        remedies=(r("wait", "Wait: processor time and compilers show that it goes on.", safe=True),),
        not_remedies=("Killing it.",),
        retryable=True,
        examples=(),
    ),
    Cause(
        id="jit_stuck",
        meaning="The compilation of a kernel never ends.",
        message="A kernel is being compiled and that does not end.",
        patterns=(),
        remedies=(
            r(
                "stale_cache",
                "Remove the stale lock and cache of the compiler (~/.cache/flashinfer, torch_extensions).",
                host_action="remove stale JIT locks",
            ),
        ),
        retryable=True,
        examples=(),
    ),
    Cause(
        id="hang_unknown",
        meaning="Silence, and nothing that tells why.",
        message="The server is silent and nothing tells why.",
        patterns=(),
        remedies=(r("stack", "Take the stack of the silent process with py-spy.", host_action="py-spy dump"),),
        retryable=True,
        examples=(),
    ),
    Cause(
        id="stopped",
        meaning="The server was stopped by its operator while it started.",
        message="The server was stopped while it was starting.",
        patterns=(),
        examples=(),
        retryable=True,
    ),
    Cause(
        id="unknown",
        meaning="A failure that the catalogue does not know.",
        message="{line}",
        patterns=(),
        examples=(),
    ),
)
