# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Lines -> failures: exceptions with their frames, their chain and their message; and single lines that tell of one.

A traceback belongs to one process, but other ranks, bars and native output can lie between its lines. Blocks are
kept per outer prefix; a line with a stamp of SGLang inside of an open block belongs to somebody else.
What is secondary (a consequence of somebody's death) and what is harmless (seen in logs of servers that started)
is data at the end of this file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable

from .lines import Line

FRAME = re.compile(
    r'\s*File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<function>[\w.<>]{1,200})\s*$)?'
)
TRACEBACK = re.compile(r"(?P<before>.*?)Traceback \(most recent call last\)")
CHAIN = re.compile(
    r"(?:During handling of the above exception, another exception occurred|The above exception was the "
    r"direct cause of)"
)
# What may name an exception at the end of a traceback, and what must look like one outside of it.
IN_BLOCK = re.compile(r"(?P<name>(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{2,80})(?:\((?:'|\"|\d|[A-Z])|:(?: |$)|$)")
OUTSIDE = re.compile(
    r"(?P<name>(?:[a-z_]\w{0,80}\.){0,12}(?:[A-Z]\w{0,80})?(?:Error|Exception|OutOfResources|"
    r"CompilationFailure|KeyboardInterrupt|Empty|TimeoutExpired|GatedRepo|OfflineModeIsEnabled|"
    r"Unsupported)(?:_?[A-Z]\w{0,40})?)(?:\((?:'|\"|\d)|:(?: |$)|$)"
)
# Logged with a stamp: "[time TP0] Scheduler hit an exception: Traceback", "... Capture failed: RuntimeError: ..."
MESSAGE_LINES = 120
MESSAGE_BYTES = 24 * 1024
FRAMES = 60
FOREIGN = 400
FAILURE_LIMIT = 300
OPEN_LIMIT = 16


# Of a rank: its phase, whether it loads a draft model, whether the server was ready.
Where = Callable[[str], "tuple[str, bool, bool]"]


@dataclass
class Failure:
    """One exception, or one line that tells of a failure, with what surrounds it."""

    lines: list[str]  # the root line and what continues it
    offset: int
    number: int
    rank: str
    source: str
    phase: str
    time: float | None = None
    kind: str = "exception"  # or "line"
    frames: list[str] = field(default_factory=list)  # file:function, outermost first
    chain: int = 0
    ranks: list[str] = field(default_factory=list)  # everybody who said the same
    drafting: bool = False
    after_ready: bool = False
    logged: bool = False  # through a logger, so the process may go on
    numbers: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.lines[0]

    @property
    def exception(self) -> str:
        """The name of the exception without its module."""
        found = IN_BLOCK.match(self.text)
        return found.group("name").rsplit(".", 1)[-1] if found else ""

    def frame_text(self) -> str:
        return "\n".join(self.frames)


@dataclass
class _Block:
    key: str
    indent: int
    rank: str
    number: int
    chain: int
    stamped: bool
    frames: list[str] = field(default_factory=list)
    foreign: int = 0
    lines: int = 0
    every_line: bool = False


class Collector:
    """Follows the tracebacks of every process in the stream and collects failures, a bounded number."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.seen: dict[str, Failure] = {}
        self.blocks: dict[str, _Block] = {}
        self.open: Failure | None = None  # an exception whose message goes on
        self.open_key = ""
        self.open_bytes = 0
        self.chains = 0
        self.chain_next: dict[str, int] = {}
        self.discarded = 0
        self.quiet = 0

    @property
    def busy(self) -> bool:
        """Whether every line is wanted now."""
        return bool(self.blocks) or self.open is not None or self.quiet > 0

    def feed(self, line: Line, where: Where) -> Failure | None:
        """Take one line. Returns the failure that it completed or is."""
        text = line.text
        if self.quiet:
            self.quiet -= 1
        found = TRACEBACK.match(text) if "Traceback (" in text else None
        if found is not None:
            self._begin(line, found.group("before"))
            # where the rest of it is lost, these words are all that tells
            return self._single(line, where) if "warmup error" in found.group("before") else None
        if CHAIN.search(text):
            self._end_message()
            self.chain_next[line.source] = self.chains
            self.quiet = 4
            return None
        headless = FRAME.match(text) if not self.blocks and not line.stamped and 'File "' in text else None
        if headless is not None and headless.group("function"):
            # the log begins in the middle of a traceback, or its first line was lost
            self._begin(line, " " * max(0, len(text) - len(text.lstrip()) - 2))
        block = self.blocks.get(line.source) or (
            next(reversed(self.blocks.values())) if self.blocks and not line.stamped else None
        )
        if block is not None:
            block.lines += 1
            frame = FRAME.match(text)
            if frame is not None and line.stamped and line.source == block.key:
                block.every_line = True  # a logger that stamps each line of a traceback
            if (line.stamped and not block.every_line) or not _belongs(line.text):
                block.foreign += 1
                if block.foreign > FOREIGN:
                    self.blocks.pop(block.key, None)
                return self._single(line, where)
            if frame is not None:
                if not block.frames:  # a log that is indented as a whole
                    block.indent = max(block.indent, len(text) - len(text.lstrip()) - 2)
                if len(block.frames) < FRAMES:
                    block.frames.append("%s:%s" % (frame.group("file"), frame.group("function") or ""))
                else:
                    block.frames[FRAMES // 2 :] = [
                        *block.frames[FRAMES // 2 + 1 :],
                        "%s:%s" % (frame.group("file"), frame.group("function") or ""),
                    ]
                return None
            indent = len(text) - len(text.lstrip())
            stripped = text.strip()
            if (
                stripped
                and indent <= block.indent
                and IN_BLOCK.match(stripped)
                and (block.frames or OUTSIDE.match(stripped))
            ):
                return self._close(block, line, stripped, where)
            if block.lines > 4 * FOREIGN:
                self.blocks.pop(block.key, None)
            return None
        if self.open is not None and self._continues(line):
            return None
        return self._single(line, where)

    def _begin(self, line: Line, before: str) -> None:
        self._end_message()
        chain = self.chain_next.pop(line.source, 0)
        if not chain:
            self.chains += 1
            chain = self.chains
        if len(self.blocks) >= OPEN_LIMIT:
            self.blocks.pop(next(iter(self.blocks)))
        indent = len(before) - len(before.lstrip()) if not before.strip() else 0
        self.blocks[line.source] = _Block(line.source, indent, line.rank, line.number, chain, line.stamped)

    def _close(self, block: _Block, line: Line, text: str, where: Where) -> Failure:
        self.blocks.pop(block.key, None)
        rank = block.rank or line.rank
        phase, drafting, after_ready = where(rank)
        failure = Failure(
            [text],
            line.offset,
            line.number,
            rank,
            line.source,
            phase,
            line.time,
            "exception",
            block.frames,
            block.chain,
            [rank],
            drafting,
            after_ready,
            block.stamped,
            [line.number],
        )
        self.open, self.open_key, self.open_bytes = failure, line.source, len(text)
        self._keep(failure)
        return failure

    def _continues(self, line: Line) -> bool:
        """Whether a line goes on with the message of the last exception."""
        failure = self.open
        if failure is None:
            return False
        text = line.text
        if (
            line.stamped
            or line.source != self.open_key
            or len(failure.lines) >= MESSAGE_LINES
            or self.open_bytes > MESSAGE_BYTES
            or (OUTSIDE.match(text.strip()) and not text.startswith((" ", "-")))
            or SECONDARY.search(text)
            or ENDS_MESSAGE.match(text)
        ):
            self._end_message()
            return False
        failure.lines.append(text[:4096])
        failure.numbers.append(line.number)
        self.open_bytes += len(text)
        return True

    def _end_message(self) -> None:
        self.open = None

    def _single(self, line: Line, where: Where) -> Failure | None:
        text = line.text.strip()
        if not text or text.startswith("Traceback") or (text.startswith("File ") and "Error" not in text):
            return None
        named = OUTSIDE.match(text)
        if named is None:
            head = text[:4000]
            if not any(word in head for word in SINGLE_WORDS) or not SINGLE.search(head):
                return None
        if HARMLESS.search(text[:2000]):
            return None
        phase, drafting, after_ready = where(line.rank)
        failure = Failure(
            [text[:8192]],
            line.offset,
            line.number,
            line.rank,
            line.source,
            phase,
            line.time,
            "exception" if named is not None else "line",
            [],
            0,
            [line.rank],
            drafting,
            after_ready,
            line.stamped,
            [line.number],
        )
        if named is not None and not line.stamped:
            self.open, self.open_key, self.open_bytes = failure, line.source, len(text)
        self._keep(failure)
        return failure

    def _keep(self, failure: Failure) -> None:
        """Every rank repeats the same failure: keep the first, note the others. Keep the first ones and the newest."""
        same = self.seen.get(failure.text)
        if (
            same is not None
            and same.after_ready == failure.after_ready
            and (same.kind == failure.kind)
            and not _chained(same, failure)
        ):
            if failure.rank not in same.ranks and len(same.ranks) < 1024:
                same.ranks.append(failure.rank)
            if failure.frames and not same.frames:
                same.frames = failure.frames
            self.discarded += 1
            return
        if len(self.failures) >= FAILURE_LIMIT:
            dropped = self.failures.pop(FAILURE_LIMIT // 2)
            self.seen.pop(dropped.text, None)
            self.discarded += 1
        self.failures.append(failure)
        self.seen[failure.text] = failure


# The outermost frame of a program's own main thread.
_PROGRAM = re.compile(r"runpy(?:>|\.py):_run_module_as_main$|(?:/bin/sglang|/launch_server\.py):<module>$")
_LAUNCHER = re.compile(r"/sglang/(?:__init__\.py|launch_server\.py|cli/\w{1,40}\.py):")


def ends_launcher(failure: Failure) -> bool:
    """Whether an exception left the launcher's main thread. The interpreter takes seconds to end after that."""
    return (
        bool(failure.frames)
        and not failure.logged
        and failure.exception != "KeyboardInterrupt"
        and _PROGRAM.search(failure.frames[0]) is not None
        and any(_LAUNCHER.search(frame) for frame in failure.frames)
    )


def _chained(one: Failure, other: Failure) -> bool:
    return bool(one.chain) and one.chain == other.chain


def _belongs(text: str) -> bool:
    """Whether an unstamped line can be a part of a traceback: not a bar, not native output of somebody else."""
    return not NATIVE.match(text)


NATIVE = re.compile(
    r"\[rank\d{1,4}\]:\[|[\w.-]{1,60}:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL|[IWEF]\d{4} \d\d:\d\d:\d\d|"
    r"\[[IWEF]\d{0,4}[ \d:.]{0,30}\S{1,60}\.(?:cpp|cc|hpp|h):\d|"
    r"[^%]{0,120}\d{1,3}%\s?(?:\||Completed)|\[Gloo\]|\s{0,8}warnings\.warn\("
)
ENDS_MESSAGE = re.compile(
    r"Possible solutions:|Open an issue on GitHub|Killed$|INFO: |ERROR: |WARNING: |\[\d{4}-\d\d-\d\d|"
    r"Exception ignored in|Process \S{1,60}:$|terminate called|Fatal Python error|\*\*\* |Thread 0x|"
    r"Extension modules:"
)

# Consequences of somebody's death. Never the root.
SECONDARY = re.compile(
    r"reentrant call inside|[Rr]eceived sigquit from a child|SIGQUIT received|scheduler is dead|"
    r"kill_process_tree called|"
    r"unexpectedly failed with an exit code|^EOFError|^Killed\b|^(?:\w+\.){0,4}KeyboardInterrupt|"
    r"Connection closed by (?:peer|localRank|remote)|Connection reset by peer|^BrokenPipeError|"
    r"Possible solutions:|Open an issue on GitHub|resource_tracker.{0,40}(?:Key|Value)Error|Server "
    r"failed to start within|Exception ignored in|RecursionError|"
    r"process group has NOT been destroyed|For debugging consider passing|Compile with "
    r".?TORCH_USE_CUDA_DSA|see the error messages above|"
    r"detoken init state|Producer process has been terminated|Triggering SIGQUIT|crashed with exit code|^SystemExit\b|"
    r"DataParallelController \d+ terminated with|"
    r"^(?:\w+\.){0,4}CancelledError|Launch failed\.|^ConnectionRefusedError|recvValue failed|Failed to "
    r"check the \"should dump\" flag|"
    r"^(?:\w+\.){0,4}(?:ChildFailedError|ProcessExitedException|ProcessRaisedException)"
)

# Seen in logs of servers that became ready: tells of no failure of the start.
HARMLESS = re.compile(
    r"NCCL INFO|Setup Custom allreduce failed|Custom allreduce is disabled|Ignore import error when loading|Failed "
    r"to import from|"
    r"can be ignored|Unable to register cu(?:FFT|DNN|BLAS)|The hostname of the client socket cannot be retrieved|"
    r"Skipping import of cpp extensions|Failed to load generation config|Using default MoE|Performance "
    r"might be sub-optimal|"
    r"Special tokens have been added|is still supported, but|UserWarning(?!: resource_tracker)|"
    r"FutureWarning|DeprecationWarning|"
    r"Fail(?:ed)? to set RLIMIT|\"(?:GET|POST|HEAD) /\S{0,80} HTTP/1\.\d\" |server_args=|"
    r"falling back to|Falling back to|fall back to|will fallback to|roll back to|rope_parameters|Unrecognized keys in|"
    r"Failed to get device capability|Import error, skip|not found\. Using default|not available\.? "
    r"(?:Using|using|Disable)|"
    r"^usage: |^\s+\[?--|_wait_and_warmup|suppress this exception|suppress_errors|Failed to detect|"
    r"warnings\.warn\(|No platform detected|Failed to import (?:deep_gemm|sgl_kernel\.|flash_mla)|"
    r"error_on_|log_level_http"
)

# Every expression of SINGLE holds one of these words; looked for before it, which is slower.
SINGLE_WORDS = (
    "error: ", "Errno", "ddress already", "EADDRINUSE", "Fatal", "fatal", "Caught signal", "core dumped",
    "signal ***", "Segfault", "Segmentation", "terminate called", "what()", "Failed", "FAILED", "CUDA error",
    "HIP error", "NCCL", "nccl", "cudaError", "build stopped", "#error", "undefined symbol", "cannot open",
    "command not found", "No module", "exec", "can't open", "Cannot", "Client Error", "Gated", "RepositoryNot",
    "atchdog", "probability tensor", "operation timeout", "Timed out", "NOT connected", "failed to connect", "GID",
    "Memory region",
    "nvshmem", "RDMA", "ibv_", "Process failed", "xit code", "died", "is dead", "igquit", "SIGQUIT", "crashed",
    "terminated with",
    "nitialization failed", "memory", "oom", "OOM", "No space", "Bus error", "Killed", "mmap", "CRITICAL",
    "built-in template", "INTERNAL", "not permitted", "leaked", "timed out", "Gloo connect",
    "NV_ERR_NO", "already allocated", "space left", "container-cli", "Failed at step", "access fault", "NaN detected",
    "HSAIL",
    "PTA call", "AclNN", "EZ", "EA", "EE", "EH", "EI",
    "EJ", "EK", "EL", "hit an exception", "peer access", "kernel image", "out of resource", "unbalanced",
    "Not enough", "too small", "SIGTERM", "Gracefully", "could not select", "] [", "finish the model",
)  # fmt: skip

# Single lines, no exception, that tell of a failure by themselves.
SINGLE = re.compile(
    r"error: (?:unrecognized arguments|argument |the following arguments|ambiguous option|invalid choice|"
    r"one of the arguments)|"
    r"\[Errno \d{1,3}\]|Address already in use|address already in use|EADDRINUSE|"
    r"Fatal Python error|Caught signal|core dumped|\*\*\* Process received signal|!!!!!!! Segfault|"
    r"Segmentation fault|terminate called|what\(\):|"
    r"^Failed: |Failed: C[uU][dD][aA]|CUDA error|HIP error|NCCL error|ncclSystemError|ncclInternalError|"
    r"NCCL WARN|ncclUnhandledCudaError|cudaError|"
    r"FAILED: |nvcc fatal|fatal error:|: error: |ninja: build stopped|#error|"
    r"undefined symbol|cannot open shared object|command not found|No module named|\bexec: |exec format "
    r"error|can't open file|"
    r"Cannot access gated repo|[45]\d\d Client Error|GatedRepoError|RepositoryNotFound|"
    r"[Ww]atchdog timeout|probability tensor contains|Watchdog caught|collective operation timeout|Timed out after \d|"
    r"is NOT connected to|failed to connect/validate to host|GID is NULL|Failed to open device|Memory "
    r"region not registered|nvshmem|No available RDMA|ibv_|Process failed for slice|"
    r"Failed to (?:register|modify|initialize|create|get) .{0,60}(?:QP|memory|RDMA|engine|GID|endpoint|context)|"
    r"[Ee]xit code: -?\d|exit code: -?\d|died during initialization|scheduler is dead|Received sigquit|"
    r"SIGQUIT received|crashed with exit code|DataParallelController \d+ terminated with -?[1-9]|"
    r"Initialization failed|initialization failed|Out of memory: Killed|oom-kill|OOMKilled|out of memory|"
    r"shared memory segment|No space left|Bus error|Killed$|^Killed|Cannot allocate memory|unable to mmap|"
    r"CRITICAL|is not a built-in template|INTERNAL ASSERT|operation not permitted when stream|"
    r"\[\d{1,4}/\d{1,4}\] [A-Z]\w{1,40}Error: |finish the model loading|could not select device driver|"
    r"leaked shared_memory objects|"
    r"leaked semaphore objects|PTA call acl|AclNN_|EZ\d{4}|E[AEHIJKLZ]\d{4}: |hit an exception|peer "
    r"access is not supported|"
    r"no kernel image|out of resource|unbalanced|Not enough (?:memory|space)|too small to serve|SIGTERM "
    r"received|Gracefully exiting|"
    r"waitForInput: .{0,200}timed out after|Gloo connectFullMesh failed|"
    r"port is already allocated|no space left on device|nvidia-container-cli: |Failed at step EXEC|"
    r"Memory access fault by GPU|NaN detected|HSAIL operation resulted|"
    r"NV_ERR_NO_MEMORY|Failed to complete transfers"
)
