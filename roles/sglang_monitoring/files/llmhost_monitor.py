# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one file for the textfile collector of the node exporter. Run by the timers of role sglang_monitoring.

Usage: llmhost_monitor.py state|probe FILE TIMEOUT_S

The role puts the core of the collection into this file as the package llmhost_core.
"""

import sys

from llmhost_core._monitor import collect, metrics
from llmhost_core._server import files
from llmhost_core._server.instance import WantedFile


def main() -> int:
    kind, path, timeout_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    found = collect.state(timeout_s) if kind == "state" else collect.probes(timeout_s)
    # readable for the exporter, and never half written
    files.replace(WantedFile(path, metrics.text(found).encode(), 0o644))
    failed = [labels["instance_name"] for name, labels, value in found if name == "llmhost_probe_success" and not value]
    if failed:
        print("no completion from %s; what was seen lies in the folder probe of the instance" % ", ".join(failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
