# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts of the real SGLang that fail: the verdict names the cause, at once. One real start a row."""

from __future__ import annotations

import time

import pytest
from conftest import FULL, Controller, Lab

KILL_SCHEDULER = """
import os, signal, time
deadline = time.time() + 200
while time.time() < deadline:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            title = open("/proc/%s/cmdline" % pid, "rb").read()
            if title.startswith(b"sglang::scheduler"):
                os.kill(int(pid), signal.SIGKILL)
                deadline = 0
        except OSError:
            pass
    time.sleep(0.05)
time.sleep(1000)  # until it is stopped
"""

# Holds the port as soon as the launcher is there: SGLang binds only at the end of its start.
TAKE_PORT = """
import http.server, os, time
def launcher():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = open("/proc/%s/cmdline" % pid, "rb").read().split(b"\\0")
            if argv[1:3] == [b"-m", b"sglang.launch_server"]:
                return True
        except OSError:
            pass
while not launcher():
    time.sleep(0.05)
http.server.ThreadingHTTPServer(("127.0.0.1", 30001), http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# id, expected cause, what is broken in the model, more variables, words that the message or detail must hold
NOWHERE = "/opt/llmhost/models/nowhere"
CASES = [
    ("unknown option", "args_unrecognized", None, {"failing_arguments": ["--no-such-flag", "1"]}, "--no-such-flag"),
    ("missing model path", "model_path_invalid", None, {"failing_model": NOWHERE}, NOWHERE),
    ("port taken", "port_in_use", None, {"failing_beside": TAKE_PORT}, "30001"),
    ("corrupt weights", "weights_corrupt", "corrupt", {}, "header"),
    ("weights that the service's user may not read", "permission_denied", "unreadable", {}, ".safetensors"),
    ("killed scheduler", "scheduler_killed", None, {"failing_beside": KILL_SCHEDULER}, "scheduler"),
    ("wrong architecture", "arch_unsupported", "badarch", {}, "NoSuchForCausalLM"),
]


@pytest.mark.parametrize(("name", "cause", "broken", "variables", "words"), CASES, ids=[c[0] for c in CASES])
def test_the_cause_is_named(
    lab: Lab, controller: Controller, runtime: str, capsys, name, cause, broken, variables, words
) -> None:
    variables = dict(variables)
    if broken:
        variables["failing_model"] = lab.model("broken-" + broken, "--break", broken)
    began = time.monotonic()
    play = controller.play("failing_start.yml", variables=variables)
    assert play.status == "successful", play.text()
    verdict = play.result("server_wait")
    with capsys.disabled():
        print(
            "\n%-45s %-20s %.3f s after the end; play %.1f s: %s"
            % (name, verdict["cause"], verdict["verdict_delay_s"], time.monotonic() - began, verdict["message"])
        )
    assert verdict["outcome"] == "failed"
    assert verdict["cause"] == cause
    assert words in verdict["message"] + repr(verdict["detail"]) + repr(verdict["evidence"])
    assert verdict["remedies"], "a cause that is known has a remedy"
    assert verdict["verdict_delay_s"] < 5


@pytest.mark.skipif(not FULL, reason="script/test full: needs another real start")
def test_nothing_is_left_of_a_failed_start(lab: Lab, controller: Controller) -> None:
    controller.play("failing_start.yml", variables={"failing_arguments": ["--no-such-flag", "1"]})
    assert lab.ct("sh", "-c", "ls /etc/systemd/system | grep failing || true").strip() == ""
    assert lab.ct("pgrep", "-fc", "sglang.launch_server.*30001", check=False).strip() == "0"
