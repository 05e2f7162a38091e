# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Lines -> phases per rank, progress, memory numbers, markers of readiness.

``MARKERS`` is the table: what SGLang prints at the borders of its phases, from 0.1.13 to 0.5.23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .lines import Line

PHASES = (
    "import",
    "args",
    "init_distributed",
    "load_weights",
    "kv_cache",
    "graph_capture",
    "compile",
    "http",
    "warmup",
    "runtime",
)
ORDER = {phase: index for index, phase in enumerate(PHASES)}

# Seconds of silence after which a phase counts as stalled. From measured starts: the longest silence seen in
# starts that succeeded, with room; a phase that compiles or reads from a slow disk is given more.
STALL_S = {
    "import": 300,
    "args": 600,
    "init_distributed": 700,
    "load_weights": 1200,
    "kv_cache": 600,
    "graph_capture": 1500,
    "compile": 1800,
    "http": 300,
    "warmup": 900,
    "runtime": 600,
}
# Where a failure lies by its traceback, the innermost frame that tells something; for logs that begin in the middle.
FRAME_PHASES = (
    ("compile", re.compile(r"torch/_(?:dynamo|inductor)/")),
    (
        "graph_capture",
        re.compile(
            r"cuda_graph_runner|graph_runner\.py|:init_(?:cuda|device|piecewise)\w{0,20}_?graphs?$|"
            r":capture(?:_one_batch_size)?$"
        ),
    ),
    ("kv_cache", re.compile(r":init_memory_pool|/mem_cache/|:_create_buffers|:init_attention_backend")),
    ("load_weights", re.compile(r"model_loader/|:load_model$|:load_weights|weight_loader|:_initialize_model")),
    (
        "init_distributed",
        re.compile(
            r":init_torch_distributed|:init_distributed_environment|:init_process_group|:initialize_model_parallel"
        ),
    ),
    (
        "warmup",
        re.compile(
            r":event_loop\w{0,30}$|:forward_batch_generation|:forward_thread_func|:_?wait_and_warmup|"
            r":_execute_server_warmup|:run_batch$"
        ),
    ),
    (
        "args",
        re.compile(
            r"server_args\.py|model_config\.py|hf_transformers|tokenizer_manager\.py:__init__|"
            r"configuration_\w{1,40}\.py|:prepare_server_args"
        ),
    ),
)
RANK_LIMIT = 1024
RANKS_LISTED = 64
MEMORY_LIMIT = 400


@dataclass(frozen=True)
class Marker:
    """One line that bounds a phase: ``event`` is what it tells, ``phase`` the phase that begins with it."""

    event: str
    phase: str
    pattern: re.Pattern[str]
    example: str


def _marker(event: str, phase: str, pattern: str, example: str) -> Marker:
    return Marker(event, phase, re.compile(pattern), example)


MARKERS = (
    _marker(
        "fired_up", "runtime", r"The server is fired up and ready to roll", "The server is fired up and ready to roll!"
    ),
    _marker(
        "health_server",
        "",
        r"Dummy health check server (?:started|scheduled)|Starting dummy health check server at",
        "Dummy health check server started in background thread at 127.0.0.1:30000",
    ),
    _marker(
        "listening", "warmup", r"Uvicorn running on", "Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)"
    ),
    _marker("application", "http", r"Application startup complete", "Application startup complete."),
    _marker("server_process", "http", r"Started server process \[", "Started server process [4711]"),
    _marker(
        "server_args",
        "args",
        r"server_args=(?:ServerArgs\(|\{|Namespace\()",
        "server_args=ServerArgs(model_path='/models/a', port=30000)",
    ),
    _marker(
        "distributed_begin",
        "init_distributed",
        r"Init (?:torch distributed|nccl|parallel) begin",
        "Init torch distributed begin.",
    ),
    _marker(
        "distributed_end",
        "",
        r"Init (?:torch distributed|nccl|parallel) ends?\b",
        "Init torch distributed ends. mem usage=0.1 GB",
    ),
    _marker("load_begin", "load_weights", r"[Ll]oad weight begin", "Load weight begin. avail mem=78.5 GB"),
    _marker("load_end", "kv_cache", r"[Ll]oad weight end", "Load weight end. type=LlamaForCausalLM, avail mem=60.1 GB"),
    _marker(
        "kv_allocated", "kv_cache", r"KV Cache is allocated", "KV Cache is allocated. #tokens: 1000, K size: 1.00 GB"
    ),
    _marker("pool_end", "kv_cache", r"Memory pool end", "Memory pool end. avail mem=9.1 GB"),
    _marker(
        "capture_end",
        "",
        r"(?i)Captur(?:e|ing) .{0,60}graph.{0,20} end",
        "Capture cuda graph end. Time elapsed: 12.1 s",
    ),
    _marker(
        "capture_begin",
        "graph_capture",
        r"(?i)Captur(?:e|ing) .{0,60}graph.{0,20}\bbegin",
        "Capture cuda graph begin. avail mem=8.1 GB",
    ),
    _marker(
        "compile",
        "compile",
        r"Compiling num tokens|torch\.compile .{0,40}(?:begin|start)|Compiling a graph",
        "Compiling num tokens (num_tokens=64)",
    ),
    _marker("tokens", "http", r"max_total_num_tokens=", "max_total_num_tokens=1000, chunked_prefill_size=8192"),
    _marker(
        "warmup_poll",
        "warmup",
        r'"GET /(?:get_)?model_info HTTP/1\.\d" 200',
        '127.0.0.1:1 - "GET /model_info HTTP/1.1" 200 OK',
    ),
    _marker("prefill", "warmup", r"^Prefill batch", "Prefill batch. #new-seq: 1, #new-token: 7"),
    _marker(
        "generated",
        "",
        r'"POST /(?:generate|encode|v1/\S{1,40}) HTTP/1\.\d" 200',
        '127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK',
    ),
    _marker("old_router", "", r"router init state:|detoken init state: init ok", "router init state: init ok"),
    _marker("nccl", "", r"sglang is using nccl==", "sglang is using nccl==2.21.5"),
    _marker("jit_begin", "", r"Loading JIT ops", "Loading JIT ops: batch_prefill"),
    _marker("jit_end", "", r"Finished loading JIT ops", "Finished loading JIT ops: batch_prefill"),
)

# Every marker holds one of these words; looked for before the expressions, which are slower.
_MARKER_WORDS = (
    "fired up", "ummy health", "Uvicorn", "Application startup", "Started server", "server_args=", "Init ",
    "oad weight ", "KV Cache is", "Memory pool end", "aptur", "APTUR", "ompil", "max_total_num_tokens=",
    "model_info", "Prefill batch", '"POST /', "init state", "nccl==", "JIT ops",
)  # fmt: skip

# Told by another process than the one that loads the model: no sign that this one goes on.
OTHERS = ("old_router", "nccl", "jit_begin", "jit_end", "warmup_poll", "generated", "server_args")

# Progress: what tqdm writes, with the words before it.
BAR = re.compile(
    r"(?P<what>[A-Za-z][^%|\r]{0,160}?)?:?\s*(?P<percent>\d{1,3})%\s*(?:\||Completed \|)[^|]{0,400}?\|"
    r"?\s*(?P<done>\d{1,9})/(?P<total>\d{1,9})"
)
MEMORY = re.compile(
    r"(?P<name>avail mem|mem usage|K size|V size|KV size|available_cpu_mem|weight_size|mem_usage|#tokens|"
    r"conv_state size|ssm_state size|intermediate_ssm_state_cache size|intermediate_conv_window_cache size|"
    r"max_total_num_tokens|available_gpu_mem)\s*[=:]\s*"
    r"(?P<value>-?\d{1,12}(?:\.\d{1,6})?)(?:\s*(?P<unit>GB|MB))?"
)
_NODE_RANK = re.compile(r"'?node_rank'?[=:]\s*(\d{1,4})")
_SKIP_WARMUP = re.compile(r"'?skip_server_warmup'?[=:]\s*True")
_LOG_LEVEL = re.compile(r"'?log_level'?[=:]\s*'(\w{1,10})'")
_OPTIONS = (
    "port", "host", "tp_size", "dp_size", "pp_size", "model_path", "mem_fraction_static", "context_length",
    "served_model_name", "attention_backend", "speculative_algorithm", "quantization", "max_total_tokens",
    "cuda_graph_max_bs", "device", "nnodes", "ssl_certfile",
)  # fmt: skip
_OPTION = re.compile(
    r"['( ](?P<name>" + "|".join(_OPTIONS) + r")'?(?:=|: )(?P<value>'[^']{0,300}'|\"[^\"]{0,300}\"|[\w.+-]{1,40})"
)


@dataclass
class RankPhase:
    """Where one rank is."""

    phase: str = "import"
    loads_begun: int = 0
    loads_ended: int = 0
    captures_begun: int = 0
    captures_ended: int = 0
    last_offset: int = 0


@dataclass
class Timeline:
    """Phase -> when the first rank entered it and the last rank left it."""

    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    ranks: dict[str, set[str]] = field(default_factory=dict)
    by_rank: dict[str, dict[str, float]] = field(default_factory=dict)


class Tracker:
    """Follows the phases of every rank; fed with lines, asked for where the start is."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.ranks: dict[str, RankPhase] = {}
        self.phase = "import"
        self.timeline = Timeline()
        self.progress: dict[str, Any] = {}
        self.memory: list[dict[str, Any]] = []
        self.options: dict[str, str] = {}
        self.events: dict[str, int] = {}  # event -> offset of its first line
        self.last_events: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.log_level = ""
        self.node_rank = 0
        self.skip_warmup = False
        self.told = 0  # how many marks were seen
        self.old = False  # 0.1.x, which prints no line when it is ready

    def of(self, rank: str) -> RankPhase:
        if rank not in self.ranks and len(self.ranks) >= RANK_LIMIT:
            return RankPhase()
        return self.ranks.setdefault(rank, RankPhase())

    def feed(self, line: Line, now: float | None = None) -> str | None:
        """Take one line; returns the event that it tells, if any."""
        text = line.text
        if "%" in text:
            self._bar(line)
        event = None
        if len(text) < 4000 or "server_args=" in text[:200]:
            head = text[:400]
            if any(word in head for word in _MARKER_WORDS):
                event = self._markers(line, head, now)
            if ("mem" in text or "size" in text or "#tokens" in text or "max_total" in text) and event != "server_args":
                self._memory(line, text)
        return event

    def _markers(self, line: Line, text: str, now: float | None) -> str | None:
        for marker in MARKERS:
            if not marker.pattern.search(text):
                continue
            moment = now if now is not None else line.time
            self.told += 1
            self.events.setdefault(marker.event, line.offset)
            self.last_events[marker.event] = line.offset
            self.counts[marker.event] = self.counts.get(marker.event, 0) + 1
            rank = self.of(line.rank)
            if marker.event not in OTHERS:
                rank.last_offset = line.offset
            if marker.event == "old_router" and "router init state" in text:
                self.old = True
            if marker.event == "server_args":
                self._options(line.text)
            elif marker.event == "load_begin":
                self.old = self.old or "load weight begin" in text
                rank.loads_begun += 1
            elif marker.event == "load_end":
                rank.loads_ended += 1
            elif marker.event == "capture_begin":
                rank.captures_begun += 1
            elif marker.event == "capture_end":
                rank.captures_ended += 1
            if marker.phase:
                self._enter(line.rank, rank, marker.phase, moment)
            return marker.event
        return None

    def _enter(self, name: str, rank: RankPhase, phase: str, moment: float | None) -> None:
        # "Load weight begin" a second time (the draft) and a capture after the pools go back or stay; the rest goes on.
        back = phase in ("load_weights", "kv_cache", "graph_capture", "compile")
        if ORDER[phase] >= ORDER[rank.phase] or back:
            rank.phase = phase
        if ORDER[phase] >= ORDER[self.phase] or (back and ORDER[self.phase] < ORDER["http"]):
            if phase != self.phase and moment is not None and self.phase in self.timeline.began:
                self.timeline.ended[self.phase] = moment
            self.phase = phase
        if moment is not None:
            self.timeline.began.setdefault(phase, moment)
            self.timeline.by_rank.setdefault(phase, {}).setdefault(name, moment)
        self.timeline.ranks.setdefault(phase, set()).add(name)

    def _options(self, text: str) -> None:
        found = _NODE_RANK.search(text)
        self.node_rank = int(found.group(1)) if found else 0
        self.skip_warmup = _SKIP_WARMUP.search(text) is not None
        found = _LOG_LEVEL.search(text)
        self.log_level = found.group(1) if found else ""
        for option in _OPTION.finditer(text):
            self.options.setdefault(option.group("name"), option.group("value").strip("'\""))

    def _bar(self, line: Line) -> None:
        last = None
        for found in BAR.finditer(line.text[-1200:]):
            last = found
        if last is None:
            return
        what = (last.group("what") or "").strip(" :")
        done, total = int(last.group("done")), int(last.group("total"))
        self.progress = {
            "what": _bar_name(what),
            "done": done,
            "total": total,
            "percent": min(100, int(last.group("percent"))),
            "rank": line.rank,
        }

    def _memory(self, line: Line, text: str) -> None:
        if len(self.memory) >= MEMORY_LIMIT:
            return
        values = {}
        for found in MEMORY.finditer(text):
            key = found.group("name").replace(" ", "_").replace("#", "").lower()
            values[key + ("_gb" if found.group("unit") == "GB" else "_mb" if found.group("unit") else "")] = float(
                found.group("value")
            )
        if values:
            self.memory.append({"at": _at(text), "rank": line.rank, **values})

    def slowest(self) -> str:
        """The phase of the rank that lags behind (among those that print one)."""
        named = [rank.phase for name, rank in self.ranks.items() if name]
        return (
            min(named, key=ORDER.__getitem__)
            if named and self.phase not in ("http", "warmup", "runtime")
            else self.phase
        )

    def durations(self, until: float | None = None) -> list[dict[str, Any]]:
        """The phases in the order in which they began, with seconds and the spread over the ranks."""
        out = []
        began = sorted(self.timeline.began.items(), key=lambda item: (item[1], ORDER[item[0]]))
        for index, (phase, start) in enumerate(began):
            end = began[index + 1][1] if index + 1 < len(began) else until
            ranks = self.timeline.by_rank.get(phase, {})
            out.append(
                {
                    "phase": phase,
                    "began": start,
                    "seconds": None if end is None else round(max(0.0, end - start), 3),
                    "ranks": sorted(self.timeline.ranks.get(phase, ())),
                    "rank_spread_s": round(max(ranks.values()) - min(ranks.values()), 3) if len(ranks) > 1 else 0.0,
                    "by_rank": _by_rank(ranks, start),
                }
            )
        return out


def _by_rank(moments: dict[str, float], start: float) -> dict[str, float]:
    """Rank -> seconds after the first one; the last ranks where there are too many for a list."""
    last = sorted(moments.items(), key=lambda item: item[1])[-RANKS_LISTED:]
    return {rank: round(moment - start, 3) for rank, moment in sorted(last)}


_LAUNCHER = re.compile(r"launch_server\.py:|_run_module_as_main|sglang/cli/")


def phase_of_frames(frames: list[str]) -> str:
    """The phase that a traceback lies in, or nothing. An outer frame decides between load, capture and pools."""
    if frames and frames[-1].endswith(":<module>"):
        return ""
    if any(_LAUNCHER.search(frame) for frame in frames) and not any(
        "/srt/managers/scheduler" in frame for frame in frames
    ):
        # the launcher's own main thread: it loads no weights and captures nothing
        return (
            "args"
            if any(
                expression.search(frame) for frame in frames for phase, expression in FRAME_PHASES if phase == "args"
            )
            else ""
        )
    for frame in frames:
        for phase, expression in FRAME_PHASES:
            if phase not in ("args", "warmup") and expression.search(frame):
                inner = next((name for one in frames for name, where in FRAME_PHASES[:2] if where.search(one)), "")
                return inner or phase
    for phase, expression in FRAME_PHASES:
        if phase in ("args", "warmup") and any(expression.search(frame) for frame in frames):
            return phase
    return ""


def _bar_name(what: str) -> str:
    lower = what.lower()
    if "captur" in lower:
        return "graph"
    if "shard" in lower or "safetensors" in lower or "weight" in lower or "checkpoint" in lower:
        return "weights"
    if "compil" in lower or "deepgemm" in lower or "deep_gemm" in lower or "warmup" in lower:
        return "compile"
    if "fetch" in lower or "download" in lower:
        return "download"
    return what[-40:] or "progress"


def _at(text: str) -> str:
    for word, name in (
        ("oad weight begin", "load_begin"),
        ("oad weight end", "load_end"),
        ("Memory pool end", "pool_end"),
        ("Mamba Cache", "state_pool"),
        ("KV Cache", "kv_cache"),
        ("graph begin", "capture_begin"),
        ("graph end", "capture_end"),
        ("max_total_num_tokens", "tokens"),
        ("Init ", "init_distributed"),
    ):
        if word in text:
            return name
    return "other"
