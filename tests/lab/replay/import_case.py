# SPDX-License-Identifier: GPL-3.0-or-later
"""import_case.py OUT CASE...: turn recorded starts of the real server into the replayer's recordings.

A CASE is a folder that holds cmd.json, result.json, timeline.tsv (seconds, stream, line), ps.tsv (the process tree at
each change) and probe.tsv (HTTP status at each change). A recording is one text file, an event a line:

    seconds <tab> stdout|stderr <tab> line as a JSON string
    seconds <tab> spawn|gone   <tab> role               launcher's children: tracker, scheduler..., detokenizer
    seconds <tab> title        <tab> role <tab> title
    seconds <tab> http         <tab> path <tab> status  (or `refused`, `closed`, `timeout`)
    seconds <tab> signal       <tab> name <tab> role    what the one who recorded did
    seconds <tab> exit         <tab> code               negative: died by that signal; `none`: was still there

What only the recorder caused (answers to its probes, deprecation notes about them) is left out; what differs in each
start (time, process ids, port, model, folder) is a placeholder in << >>.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

STAMP = re.compile(r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
ACCESS = re.compile(r'INFO: +[\d.]+:\d+ - "(GET|POST|PUT) ')
CAUSED_BY_PROBES = re.compile(
    r"Endpoint '/get_\w+_info' is deprecated|ORJSONResponse is deprecated|return await original_handler\("
)
READY = "The server is fired up and ready to roll!"


def option(argv: list[str], *names: str) -> str:
    for number, word in enumerate(argv):
        if word in names and number + 1 < len(argv):
            return argv[number + 1]
    return ""


def processes(text: str) -> tuple[dict[str, str], list[tuple[float, str, str, str]]]:
    """-> roles by pid, events (seconds, kind, role, title) from ps.tsv."""
    snapshots: list[tuple[float, dict[str, tuple[str, str, str]]]] = []
    for line in text.splitlines():
        if line.startswith("# t="):
            snapshots.append((float(line[4:]), {}))
        elif line:
            pid, ppid, name, state, dummy, dummy, title = (line.split("\t") + [""] * 7)[:7]
            snapshots[-1][1][pid] = (name, state, title.strip())
    if not snapshots:
        return {}, []
    launcher = next(iter(snapshots[0][1]))
    titles: dict[str, list[tuple[float, str]]] = {}
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for seconds, processes_now in snapshots:
        for pid, (_name, state, title) in processes_now.items():
            if state == "zombie":
                continue
            first.setdefault(pid, seconds)
            if not title.startswith("sglang::") or titles.get(pid, [(0.0, "")])[-1][1] == title:
                continue
            if len(title) > 15 or not titles.get(pid):  # a dying process shows its name, cut to 15
                titles.setdefault(pid, []).append((seconds, title))
    for pid in first:
        for seconds, processes_now in snapshots:
            if seconds > first[pid] and (pid not in processes_now or processes_now[pid][1] == "zombie"):
                last.setdefault(pid, seconds)
    roles = {launcher: "launcher"}
    children = [pid for pid in first if pid != launcher]
    spawned = []
    for pid in children:
        text_of = next(p[pid][2] for dummy, p in snapshots if pid in p)
        if "resource_tracker" in text_of:
            roles[pid] = "tracker"
        elif "spawn_main" in text_of or titles.get(pid):
            spawned.append(pid)
    for number, pid in enumerate(spawned):
        known = titles.get(pid, [(0.0, "")])[-1][1].replace("sglang::", "")
        guess = "detokenizer" if number == len(spawned) - 1 and number else "scheduler"
        roles[pid] = known or guess
    events: list[tuple[float, str, str, str]] = []
    for pid, role in roles.items():
        if role == "launcher":
            continue
        events.append((first[pid], "spawn", role, ""))
        events += [(seconds, "title", role, title) for seconds, title in titles.get(pid, [])]
        if pid in last:
            events.append((last[pid], "gone", role, ""))
    return roles, events


def convert(case: Path) -> str:
    command = json.loads((case / "cmd.json").read_text())
    result = json.loads((case / "result.json").read_text())
    argv = command["cmd"]
    if argv[0] in ("bash", "sh"):  # a shell set limits first, then became the server
        argv = argv[-1].split("exec ")[-1].split()
    roles, events = processes((case / "ps.tsv").read_text())
    port, model = option(argv, "--port") or "30000", option(argv, "--model-path", "--model")
    sites = re.compile(r"/[\w./-]*/lib/python3\.\d+/site-packages")

    def general(line: str) -> str:
        line = STAMP.sub("[<<time>>", line)
        line = sites.sub("<<site>>", line)
        for pid, role in roles.items():
            line = re.sub(rf"(?<!\d)(?<!\d\.)(?<!:){pid}(?!\d|\.\d)", f"<<pid {role}>>", line)
        line = re.sub(rf"(?<!\d){port}(?!\d)", "<<port>>", line)
        if model:
            line = re.sub(rf"(?<![\w/]){re.escape(model)}(?![\w-])", "<<model>>", line)
        return line

    out: list[tuple[float, str]] = []
    ready = signalled = False
    # bytes, for a progress bar's carriage returns belong to its line
    for row in (case / "timeline.tsv").read_bytes().decode("utf-8", "replace").split("\n"):
        if row.count("\t") < 2:
            continue
        stamp, stream, line = row.split("\t", 2)
        if stream == "DRIVER":
            found = re.match(r"sent SIG(\w+) to (\S+) ", line)
            if found:
                signalled = True
                target = {"main": "launcher", "spawn_main": "children"}.get(found.group(2), found.group(2))
                out.append((float(stamp), f"signal\t{found.group(1)}\t{target.replace('sglang::', '')}"))
            continue
        own = ready or not re.search(r'"POST /(generate|freeze_gc) ', line)  # the warm-up's lines stay
        if (ACCESS.search(line) and own) or CAUSED_BY_PROBES.search(line) or (ready and not signalled):
            continue
        if signalled and re.search(r"(Prefill|Decode) batch", line):
            continue
        out.append((float(stamp), f"{stream}\t{json.dumps(general(line), ensure_ascii=False)}"))
        ready = ready or READY in line
    end = result["exit_at"]
    for seconds, kind, role, title in events:
        if kind == "gone" and result["driver_killed"] and seconds > end - 2:
            continue  # the recorder ended it, not the server
        out.append((seconds, f"{kind}\t{role}" + (f"\t{title}" if title else "")))
    for row in (case / "probe.tsv").read_text().splitlines():
        stamp, dummy, path, status = row.split("\t")
        words = {"refused": "refused", "closed": "closed", "reset": "closed", "timed out": "timeout"}
        status = next((short for word, short in words.items() if word in status), status)
        out.append((float(stamp), f"http\t{path}\t{status}"))
    code = "none" if result["driver_killed"] else str(result["rc"])
    out = [event for event in out if event[0] <= end + 30]
    out.append((end, f"exit\t{code}"))
    out.sort(key=lambda event: event[0])
    shown = " ".join(general(word) for word in argv[argv.index("-m") + 2 :] if word)
    head = [
        "# SPDX-License-" + "Identifier: GPL-3.0-or-later",  # in two, or REUSE reads it as this file's own
        f"# {case.name}: recorded from the real SGLang {'0.5.6.post2' if '0.5.6' in case.name else '0.5.23'} on a CPU",
        f"# arguments: {shown}",
    ]
    return "\n".join([*head, *(f"{seconds:.3f}\t{rest}" for seconds, rest in out)]) + "\n"


def main() -> None:
    place = Path(sys.argv[1])
    for name in sys.argv[2:]:
        text = convert(Path(name))
        (place / f"{Path(name).name}.tsv").write_text(text)
        print(f"{Path(name).name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
