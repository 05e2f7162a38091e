# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher: plays a recording's lines, processes and port in their time, and reacts as the real server does.

LLMHOST_REPLAY        name of a recording, or a path to one (default: a start that works); "OPTION?A:B" plays A where
                      the option is given, else B
LLMHOST_REPLAY_SPEED  1 plays in real time, 20 plays twenty times as fast
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import time
from multiprocessing.connection import wait as wait_for_any

from sglang import recording
from sglang.children import child
from sglang.web import Web

OPENS = "Uvicorn running on"
READY = "The server is fired up and ready to roll!"
BIND_ERROR = "error while attempting to bind"
COREDUMP_WAIT_S = 60


class Arguments:
    """The few of the server's options that a client can see."""

    def __init__(self, argv):
        options = dict(self.read(argv))
        if "config" in options:  # a YAML file of plain `key: value` lines
            with open(options["config"], encoding="utf-8") as handle:
                for line in handle:
                    m = re.match(r"^([a-z][\w-]*)\s*:\s*(.+?)\s*$", line)
                    if m:
                        options.setdefault(m.group(1).replace("_", "-"), m.group(2).strip("'\""))
        self.host = options.get("host", "127.0.0.1")
        self.port = int(options.get("port", 30000))
        self.model = options.get("model-path") or options.get("model") or "model"
        self.served = options.get("served-model-name") or self.model
        self.api_key = options.get("api-key", "")
        self.certificate, self.key = options.get("ssl-certfile", ""), options.get("ssl-keyfile", "")
        self.key_password = options.get("ssl-keyfile-password", "")
        self.enable_metrics = options.get("enable-metrics", "false").lower() in ("", "true")

    @staticmethod
    def read(argv):
        for number, word in enumerate(argv):
            if not word.startswith("--"):
                continue
            key, equals, value = word[2:].partition("=")
            if not equals and number + 1 < len(argv) and not argv[number + 1].startswith("--"):
                value = argv[number + 1]
            yield key, value


class Player:
    def __init__(self, argv):
        self.arguments = Arguments(argv)
        self.speed = float(os.environ.get("LLMHOST_REPLAY_SPEED") or 1)
        self.begin = time.monotonic()
        self.children = {}
        self.expected = set()  # children whose death the recording itself brings
        self.titles = {}
        self.phase = "starting"
        self.told = False  # that it drains
        self.signals = []
        self.wake, self.waker = os.pipe()
        os.set_blocking(self.waker, False)
        self.web = Web(self.arguments, self.speed, self.access, self.frozen)
        self.values = {
            "port": self.arguments.port,
            "model": self.arguments.model,
            "site": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
            "pid launcher": os.getpid(),
        }

    # ------------------------------------------------------------ output
    def line(self, stream, text):
        data = (recording.fill(text, self.values) + "\n").encode("utf-8", "replace")
        fd = 1 if stream == "stdout" else 2
        while data:
            data = data[os.write(fd, data) :]

    def access(self, text):
        self.line("stdout", "[<<time>>] " + text)

    # ------------------------------------------------------------ children
    def spawn(self, role):
        if role == "tracker":
            return  # multiprocessing starts its own with the first child, and it is the real thing
        if role in self.children:
            return
        context = multiprocessing.get_context("spawn")
        mine, theirs = context.Pipe(duplex=False)
        title, seconds = self.titles.get(role, ("sglang::" + role, None))
        at = None if seconds is None else self.begin + seconds / self.speed
        plan = (role, title, at, os.getpid(), self.speed, self.values, theirs)
        process = context.Process(target=child, args=plan, daemon=True)
        process.start()
        theirs.close()
        self.children[role] = (process, mine)
        self.values["pid " + role] = process.pid
        self.phase = "loading" if self.phase == "starting" else self.phase

    def titled(self, role):
        """Wait for the child's title: played fast, a child's own start takes longer than the recording says."""
        process, pipe = self.children.get(role, (None, None))
        if process and pipe.poll(20):
            late = time.monotonic() - self.begin - self.titles[role][1] / self.speed
            self.begin += max(0.0, late)

    def kill(self, role, number=signal.SIGKILL):
        process = self.children.get(role, (None, None))[0]
        self.expected.add(role)
        if process and process.pid and process.is_alive():
            os.kill(process.pid, number)
            if number in (signal.SIGKILL, signal.SIGTERM):
                process.join(5)

    def frozen(self):
        for role, (process, _pipe) in list(self.children.items()):
            if role.startswith("scheduler") and process.exitcode is None:
                try:
                    with open("/proc/%d/stat" % process.pid) as handle:
                        if handle.read().rsplit(")", 1)[1].split()[0] in "Tt":
                            return True
                except OSError:
                    pass
        return False

    # ------------------------------------------------------------ time
    def sleep_until(self, moment):
        """Wait for a moment (None: for ever), and meanwhile react to signals and to the deaths of children."""
        while True:
            self.react()
            left = None if moment is None else moment - time.monotonic()
            if left is not None and left <= 0:
                return
            alive = [p.sentinel for role, (p, dummy) in self.children.items() if role not in self.expected]
            if self.wake in wait_for_any([self.wake, *alive], left):
                os.read(self.wake, 64)

    def react(self):
        if self.signals and self.phase in ("ready", "loading"):
            number = self.signals.pop(0)
            self.answer("term-ready" if number == signal.SIGTERM else "int-ready", number)
        dead = self.dead()
        if dead:  # a signal to the whole group ends all within a moment: the scheduler's death is the one to tell
            time.sleep(0.05)
            dead = sorted(self.dead(), key=lambda role: not role.startswith("scheduler"))
        for role in dead:
            process = self.children[role][0]
            self.expected.add(role)
            self.values["died"] = process.exitcode
            if role.startswith("scheduler"):
                self.answer("scheduler-died-" + self.phase)
            elif role == "detokenizer" and self.phase in ("ready", "draining"):
                self.answer("detokenizer-died-ready")

    def dead(self):
        return [role for role, (p, dummy) in self.children.items() if role not in self.expected and not p.is_alive()]

    def caught(self, number, dummy):
        self.signals.append(number)
        os.write(self.waker, b"!")

    def answer(self, what, number=0):
        """Play the tail of the run in which this happened to the real server. Does not come back."""
        events = recording.tail(what)
        if what == "term-ready":
            self.phase = self.web.state = "draining"
        else:
            self.expected |= set(self.children)  # one answer: the other deaths belong to it
            if what.endswith("-ready"):
                self.phase = self.web.state = "crashing"
        self.begin = time.monotonic()
        for event in events:
            if event.kind not in ("stdout", "stderr", "exit"):
                continue
            if "Gracefully exiting" in event.first:
                self.drain(event)
                if what == "term-ready":
                    self.sleep_until(time.monotonic() + 0.1)  # was it for the whole group? Then children died, too
                    self.expected |= set(self.children)  # from here on it ends them itself
            self.sleep_until(self.begin + event.seconds / self.speed)
            if event.kind == "exit":
                self.finish(event.first, number)
            text = event.first
            if "died" in self.values:  # the recorded child died by SIGKILL, this one maybe otherwise
                text = re.sub(r"exit code:? -?\d+(?=[).])(?!\. If)", self.died_as, text)
            if "SIGTERM received" in text:
                if self.told:
                    continue
                self.told = True
            if "Shutting down" in text:
                self.web.close()
            self.line(event.kind, text)

    def died_as(self, found):
        words = "exit code: " if "exit code:" in found.group() else "exit code "
        return words + str(self.values["died"])

    def drain(self, event):
        """Running requests are finished first; looked at every 5 s, as the real one does."""
        while self.web.running:
            self.line(event.kind, re.sub(r"requests \d+", "requests %d" % self.web.running, event.first))
            self.begin += 5 / self.speed
            self.sleep_until(time.monotonic() + 5 / self.speed)

    # ------------------------------------------------------------ the play
    def play(self, events):
        for event in events:
            if event.kind == "title":
                self.titles.setdefault(event.first, (event.second, event.seconds))
        recorded_bind_error = any(BIND_ERROR in event.first for event in events)
        for event in events:
            if event.kind == "http":
                continue  # follows from the state
            self.sleep_until(self.begin + event.seconds / self.speed)
            if event.kind in ("stdout", "stderr"):
                if OPENS in event.first and not recorded_bind_error and not self.open():
                    return
                if READY in event.first:
                    self.phase = "ready" if self.phase == "loading" else self.phase
                    self.web.state = "ready"
                self.line(event.kind, event.first)
            elif event.kind == "spawn":
                self.spawn(event.first)
            elif event.kind == "title":
                self.titled(event.first)
            elif event.kind == "gone":
                self.kill(event.first)
            elif event.kind == "signal":
                if event.first not in ("KILL", "STOP") or event.second in ("launcher", "group", "children"):
                    self.sleep_until(None)  # what the recorder did to the launcher, a test does itself
                self.phase = self.web.state = "crashing" if event.first == "KILL" else self.phase
                self.kill(event.second, getattr(signal, "SIG" + event.first))
                if event.first == "STOP":
                    self.web.state = "ready"
                    self.sleep_until(None)
            elif event.kind == "exit":
                if event.first == "none":
                    if self.phase == "crashing":
                        self.finish("none")
                    self.sleep_until(None)
                self.finish(event.first)

    def open(self):
        """The port opens. From here on SIGTERM and SIGINT are caught; before, they end the launcher at once."""
        try:
            self.web.open()
        except OSError:
            what = "port-taken-by-sglang" if self.is_sglang() else "port-taken"
            self.answer(what)
            self.sleep_until(None)
            return False
        signal.signal(signal.SIGTERM, self.caught)
        signal.signal(signal.SIGINT, self.caught)
        return True

    def is_sglang(self):
        import urllib.request

        try:
            address = "http://%s:%d/model_info" % (self.arguments.host, self.arguments.port)
            return urllib.request.urlopen(address, timeout=2).status == 200
        except OSError:
            return False

    def finish(self, code, number=0):
        """End as the recording did: children first, then this process by its exit code or signal."""
        if code == "none":  # the recorder lost patience; the real server waits for core dumps, then ends itself
            self.sleep_until(time.monotonic() + (COREDUMP_WAIT_S - 30) / self.speed)
            code = "-9"
        for role in self.children:
            self.kill(role)
        code = -number if number == signal.SIGINT else int(code)
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
            os.kill(os.getpid(), -code)
            time.sleep(5)
        os._exit(code)


def main(argv):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = recording.chosen(os.environ.get("LLMHOST_REPLAY") or recording.DEFAULT, argv)
    try:
        events = recording.load(name)
    except OSError as error:
        sys.stderr.write("replayer: LLMHOST_REPLAY=%s: %s\nIt has: %s\n" % (name, error, " ".join(recording.names())))
        sys.exit(3)
    player = Player(argv)
    player.play(events)
    player.sleep_until(None)
