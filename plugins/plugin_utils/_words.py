# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Words for people, for what the core names in identifiers."""

from __future__ import annotations

PHASE_WORDS = {
    "import": "starting Python",
    "args": "reading arguments and configuration",
    "init_distributed": "connecting the ranks",
    "load_weights": "loading weights",
    "kv_cache": "allocating the KV cache",
    "graph_capture": "capturing graphs",
    "compile": "compiling kernels",
    "http": "opening the port",
    "warmup": "warming up",
    "runtime": "ready",
}
# What a start had become when it was looked at.
OUTCOME_WORDS = {
    "ready": "ready",
    "failed": "failed",
    "stalled": "stalled",
    "timeout": "not ready in time",
    "stopped": "stopped",
    "in_progress": "in progress",
    "crashed_after_ready": "crashed after it was ready",
    "skipped": "not started",
}
# Where in a start a memory number was printed.
STEP_WORDS = {
    "init_distributed": "ranks connected",
    "load_begin": "before loading",
    "load_end": "weights loaded",
    "state_pool": "state pool allocated",
    "kv_cache": "KV cache allocated",
    "pool_end": "pools allocated",
    "capture_begin": "before the graphs",
    "capture_end": "graphs captured",
    "tokens": "ready to serve",
}
