# SPDX-License-Identifier: GPL-3.0-or-later
"""In the container: waits for a line in a start's output, then does one thing to that start, and notes when.

agent.py JSON        {"name", "mark", "do", "role", "log", "delay", ...}
agent.py await NAME  until the fault of NAME is done
agent.py times NAME  prints {"fault": seconds, "verdict": seconds, ...}: when the fault was, and when the verdict
agent.py end NAME    ends the start and the agent
"""

import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

DONE = "/run/faults/%s.json"
WATCH = "/var/lib/llmhost/instances/%s/watch/*.%s.json"
NOISE = (
    b"[2026-01-01 10:00:00 TP0] Loading error map %d for kernel tuning: exception table entry 0x%x, failed lookups 0\n"
)


def unit(name):
    return "sglang-%s.service" % name


def show(name, key):
    done = subprocess.run(["systemctl", "show", "--value", "-p", key, unit(name)], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().strip()


def lines(spec):
    """The output of this start as it comes."""
    if spec.get("log"):
        while not os.path.exists(spec["log"]):
            time.sleep(0.01)
        command = ["tail", "-n", "+1", "-F", "-s", "0.05", spec["log"]]
    else:
        since = "--since=@%d" % time.time()  # the name may have been used before
        command = ["journalctl", "-q", "-f", "-n", "all", "-o", "cat", since, "-u", unit(spec["name"])]
    while True:  # journalctl ends where the journal knows nothing of the unit yet
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        held = b""
        try:
            while True:
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    break
                *whole, held = (held + data).replace(b"\r", b"\n").split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
        finally:
            process.kill()
            process.wait()
        time.sleep(0.1)


def family(name):
    """role -> PID of a start: launcher, tracker, scheduler..., detokenizer; child-N while they import."""
    group, main = show(name, "ControlGroup"), int(show(name, "MainPID") or 0)
    pids = []
    for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"):
        with contextlib.suppress(OSError), open("%s/%s/cgroup.procs" % (root, group)) as handle:
            pids = sorted(int(word) for word in handle.read().split())
            break
    found, children = {"launcher": main} if main else {}, 0
    for pid in pids:
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid, "rb") as handle:
            title = handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            if "resource_tracker" in title:
                found["tracker"] = pid
            elif title.startswith("sglang::"):
                found[title[len("sglang::") :]] = pid
            elif "spawn_main" in title:
                found["child-%d" % children] = pid
                children += 1
    return found


def target(name, role):
    """The PID of a role; while it has no title, the first child is the scheduler and the last the detokenizer."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = family(name)
        for known, pid in found.items():
            if known.startswith(role):
                return pid
        children = [found[key] for key in sorted(found) if key.startswith("child-")]
        if len(children) >= 2 and role in ("scheduler", "detokenizer"):
            return children[0 if role == "scheduler" else -1]
        if role == "detokenizer" and len(children) == 1 and any(known.startswith("scheduler") for known in found):
            return children[0]  # the scheduler was faster
        time.sleep(0.02)
    raise SystemExit("%s has no %s: %s" % (name, role, family(name)))


def held(name):
    """Halt every process of a start until it is watched; -> those that are to go on then."""
    end = time.monotonic() + 120
    pids = set()
    while time.monotonic() < end:
        for pid in set(family(name).values()) - pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                pids.add(pid)
        for path in glob.glob(WATCH % (name, "status")):
            with contextlib.suppress(OSError), open(path) as handle:
                if "watching" in handle.read():
                    return pids
        time.sleep(0.05)
    raise SystemExit("nobody watches " + name)


def kill(spec, number=signal.SIGKILL):
    pid = target(spec["name"], spec["role"])
    with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid, "rb") as handle:
        spec["did"] = handle.read(100).replace(b"\0", b" ").decode().strip()
    os.kill(pid, number)


def halt(spec):
    """A replayer's launcher says what its scheduler would: both stay halted there."""
    kill(spec, signal.SIGSTOP)
    spec["stay"] = [target(spec["name"], role) for role in [spec["role"], *(["launcher"] if spec["replayed"] else [])]]


def rotate(spec):
    os.rename(spec["log"], spec["log"] + ".1")
    with open(spec["log"], "wb"):
        pass


def truncate(spec):
    os.truncate(spec["log"], 0)


def copytruncate(spec):
    with open(spec["log"], "rb") as old, open(spec["log"] + ".1", "wb") as new:
        new.write(old.read())
    os.truncate(spec["log"], 0)


def noise(spec):
    """So many megabytes of lines that mean nothing, as fast as they can be written."""
    written = number = 0
    with open(spec["log"], "ab", buffering=0) as log:
        while written < spec["megabytes"] * 1000000:
            part = b"".join(NOISE % (number + index, number + index) for index in range(5000))
            written += log.write(part)
            number += 5000


def memory(spec):
    """Fill what the control group may have from inside of it, with memory of no process: the server's must die."""
    group, path = show(spec["name"], "ControlGroup").strip("/"), "/dev/shm/fault-" + spec["name"]
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os.unlink(path)
        return
    joined = 0
    for root in ("", "unified/", "memory/", "systemd/"):
        with contextlib.suppress(OSError), open("/sys/fs/cgroup/%s%s/cgroup.procs" % (root, group), "w") as handle:
            handle.write(str(os.getpid()))
            joined += 1
    with open(path, "wb", buffering=0) as file:
        for _part in range(spec["megabytes"] if joined else 0):
            file.write(b"x" * 1000000)
    os._exit(0)


def restarts(spec):
    """Until systemd has started it anew so often; ``swap`` gives the next run another recording."""
    if spec.get("swap"):
        os.replace(spec["swap"], spec["environment"]["LLMHOST_REPLAY"])
    end = time.monotonic() + 60
    while int(show(spec["name"], "NRestarts") or 0) < spec["restarts"] and time.monotonic() < end:
        time.sleep(0.05)


def cut(spec):
    """End every ssh session of this container, as a network does that goes away."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % pid) as handle:
            comm, rest = handle.read().split("(", 1)[1].rsplit(")", 1)
            if comm == "sshd" and rest.split()[1] != "1":
                os.kill(int(pid), signal.SIGKILL)


ACTIONS = {
    "restarts": restarts,
    "cut": cut,
    "kill": kill,
    "halt": halt,
    "rotate": rotate,
    "truncate": truncate,
    "copytruncate": copytruncate,
    "noise": noise,
    "memory": memory,
    "nothing": lambda spec: None,
}


def go_on(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def note(spec, at):
    path = DONE % spec["name"]
    with open(path + ".new", "w") as handle:
        json.dump({"fault": at, "did": spec.get("did", spec["do"])}, handle)
    os.rename(path + ".new", path)


def main():
    if sys.argv[1] == "await":
        end = time.monotonic() + 300
        while not os.path.exists(DONE % sys.argv[2]):
            if time.monotonic() > end:
                raise SystemExit("the fault of %s did not come" % sys.argv[2])
            time.sleep(0.05)
        return
    if sys.argv[1] == "times":
        found = {}
        with contextlib.suppress(OSError), open(DONE % sys.argv[2]) as handle:
            found = json.load(handle)
        times = [os.stat(path).st_mtime for path in glob.glob(WATCH % (sys.argv[2], "verdict"))]
        print(json.dumps({**found, "verdict": max(times, default=None), "restarts": show(sys.argv[2], "NRestarts")}))
        return
    if sys.argv[1] == "end":
        for one in ("fault-%s.service" % sys.argv[2], unit(sys.argv[2])):
            for words in (["kill", "--signal=SIGKILL"], ["stop"]):
                subprocess.run(["systemctl", *words, one], stderr=subprocess.DEVNULL, check=False)
        return
    spec = json.loads(sys.argv[1])
    if spec["mark"]:
        next(line for line in lines(spec) if re.search(spec["mark"], line))
    time.sleep(spec.get("delay", 0.0))
    pids = set() if spec["first"] or spec["do"] == "nothing" else held(spec["name"])
    at = time.time()
    if spec["do"] == "memory":
        go_on(pids)
        note(spec, at)
    try:
        ACTIONS[spec["do"]](spec)
    finally:  # a fault that could not be made is none, and must not look like a halted server
        go_on(pids - set(spec.get("stay", ())))
    if spec["do"] == "noise":
        at = time.time()
    note(spec, at)


if __name__ == "__main__":
    main()
