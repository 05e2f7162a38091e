# SPDX-License-Identifier: GPL-3.0-or-later
"""The node (``lab up``, ``down``, ``run``, ``status``) and its containers (``lab ct``, ``inventory``).

The node is a set of namespaces over this machine's own files. Who belongs to it is told by its control group, never
by a process number in a file: so `down` finds everything, whatever was killed before, and kills nobody else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import lab_gpu
import lab_image
from lab_common import HIDDEN, NODE_FILES, ROOT_MAP, LabError, Settings, run, say

MARKER = ".llmhost-lab"  # `down` removes only a folder that holds this
WAIT_S = 60
NODE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
}


# ---------------------------------------------------------------- control groups
def hierarchies(settings: Settings) -> list[Path]:
    """Mount points of the hierarchies in use: cgroup2 first; in hybrid mode all of v1 too."""
    with open("/proc/self/mounts") as handle:
        mounts = [line.split()[:3] for line in handle]
    found = sorted({Path(m[1]) for m in mounts if m[2] == "cgroup2"}, key=lambda p: len(str(p)))[:1]
    recorded = settings.read("cgroup") or settings.cgroup
    if recorded == "hybrid":
        found += sorted({Path(m[1]) for m in mounts if m[2] == "cgroup"})
    return found


def groups(settings: Settings) -> list[Path]:
    return [top / settings.name for top in hierarchies(settings)]


def members(settings: Settings) -> set[int]:
    """Every process of the lab, by its control groups."""
    pids: set[int] = set()
    for group in groups(settings):
        for folder, _folders, _files in os.walk(group):
            with contextlib.suppress(OSError):
                pids.update(int(word) for word in Path(folder, "cgroup.procs").read_text().split())
    return pids - {0}


def join(settings: Settings, pid: int) -> None:
    for group in groups(settings):
        inner = group / "init.scope"
        ((inner if inner.is_dir() else group) / "cgroup.procs").write_text(str(pid))


def make_groups(settings: Settings) -> None:
    if not hierarchies(settings):  # a machine with v1 alone: a cgroup2 of our own, without controllers, does
        mount = settings.lab / "cgroup2"
        mount.mkdir(exist_ok=True)
        run("mount", "-t", "cgroup2", "cgroup2", mount)
    for group in groups(settings):
        group.mkdir(exist_ok=True)
        if (group / "cpuset.cpus").exists() and not (group / "cgroup.controllers").exists():
            # a v1 cpuset takes no members until it has cpus and memory nodes
            for name in ("cpuset.cpus", "cpuset.mems"):
                (group / name).write_text((group.parent / name).read_text())
            (group / "cgroup.clone_children").write_text("1")


def drop_groups(settings: Settings) -> None:
    end = time.monotonic() + 10
    left = [group for group in groups(settings) if group.exists()]
    while left:
        for group in left:
            for folder, _folders, _files in sorted(os.walk(group), reverse=True):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        left = [group for group in left if group.exists()]
        if left and time.monotonic() > end:
            raise LabError(f"cannot remove {', '.join(map(str, left))}: what still runs there? {members(settings)}")
        if left:
            time.sleep(0.05)


# ---------------------------------------------------------------- the node
def node_pid(settings: Settings) -> int:
    """The node's process 1 by its number outside, or 0 when the lab is not up."""
    word = settings.read("pid")
    return int(word) if word.isdigit() and int(word) in members(settings) else 0


def open_port(wanted: str) -> socket.socket:
    """The node's ssh port, bound from now on: no other lab can take it between choice and use."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", int(wanted or 0)))
    except OSError as error:
        raise LabError(f"LAB_PORT={wanted}: {error.strerror}. Choose another, or leave it out") from None
    server.listen(64)
    return server


def listening(port: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def up(settings: Settings, gpu: bool = True) -> None:
    if node_pid(settings) and settings.read("port") and listening(settings.read("port")):
        say(f"already up: {settings.lab}, ssh port {settings.read('port')}")
        return
    lab = settings.lab
    if lab.exists() and any(lab.iterdir()) and not (lab / MARKER).exists():
        raise LabError(f"{lab} is not empty and not a lab's: choose another LAB")
    missing = [p for p in lab_image.missing_packages() if p not in ("gcc", "libc6-dev", "make")]
    if missing:
        raise LabError(f"Debian packages are missing: {' '.join(missing)}. Run 'lab packages'")
    start = time.monotonic()
    down(settings, quiet=True)
    server = open_port(settings.port)
    port = str(server.getsockname()[1])
    lab.mkdir(parents=True, exist_ok=True)
    (lab / MARKER).touch()  # first of all: what an interruption leaves is known as a lab's
    for name in ("upper", "work", "images", "lxc", "ssh", "home/.ssh", "node", "data"):
        (lab / name).mkdir(parents=True)
    for name in ("templates", "wheelhouse", "data"):
        (settings.cache / name).mkdir(parents=True, exist_ok=True)
    for source in NODE_FILES.iterdir():  # copies: the sources may lie below a folder that the node covers
        if source.is_file():
            shutil.copyfile(source, lab / "node" / source.name)
    (lab / "cgroup").write_text(settings.cgroup)
    (lab / "net").write_text(settings.net)
    (lab / "port").write_text(port)
    ssh_files(settings, port)
    make_groups(settings)
    try:
        start_node(settings)
        listen = [sys.executable, "-B", str(lab / "node/listen.py"), str(server.fileno())]
        spawn(settings, [*listen, str(lab)], pass_fds=[server.fileno()])
        server.close()
    except BaseException:
        log = lab / "log"
        text = log.read_text() if log.exists() else ""
        down(settings, quiet=True)
        say(text.rstrip())
        raise
    if gpu:
        lab_gpu.install(settings, only_if_there=True)
    say(f"node pve1 is up in {time.monotonic() - start:.1f} s: ssh -F {lab}/ssh/config pve1   (port {port})")


def ssh_files(settings: Settings, port: str) -> None:
    ssh = settings.lab / "ssh"
    for name in ("id", "host"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"llmhost-lab-{name}", "-f", ssh / name)
    host_key = " ".join((ssh / "host.pub").read_text().split()[:2])
    known = f"[127.0.0.1]:{port} {host_key}\n"
    (ssh / "known_hosts").write_text(known)
    (settings.lab / "home/.ssh/known_hosts").write_text(known)
    (settings.lab / "home/.ssh").chmod(0o700)
    (ssh / "sshd").write_text(
        f"HostKey {ssh}/host\nAuthorizedKeysFile {ssh}/id.pub\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nUseDNS no\nStrictModes no\n"
        "MaxStartups 100\nAcceptEnv LANG LC_*\nSubsystem sftp internal-sftp\nPidFile none\n"
    )
    (ssh / "config").write_text(
        f"# written by 'lab up': ssh -F {ssh}/config pve1 | ct<VMID>\n"
        f"Host *\n  User root\n  IdentityFile {ssh}/id\n  IdentitiesOnly yes\n  UserKnownHostsFile {ssh}/known_hosts\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        f"Host pve1\n  HostName 127.0.0.1\n  Port {port}\n"
    )


def spawn(settings: Settings, command: list[str], **more: object) -> subprocess.Popen:
    """Start a process of the lab: in its control group before it runs, and in a session of its own."""
    with open(settings.lab / "log", "ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            preexec_fn=lambda: join(settings, os.getpid()),
            **more,
        )


def start_node(settings: Settings) -> None:
    lab = settings.lab
    environment = {
        **os.environ,
        "LAB": str(lab),
        "LAB_CACHE": str(settings.cache),
        "LAB_CGROUP": settings.cgroup,
        "LAB_NET": settings.net,
    }
    outer = spawn(settings, ["unshare", "--cgroup", "bash", f"{lab}/node/power.sh"], env=environment)
    wait_for(lambda: (lab / "ready").exists() or outer.poll() is not None, "the node's process 1", lab / "log")
    if outer.poll() is not None:
        raise LabError("the node did not come up; 'lab probe' says whether the kernel can run it. Its last words:")
    group = groups(settings)[0]
    for pid in (group / "cgroup.procs").read_text().split():
        join(settings, int(pid))  # out of the lab's top group, so that controllers can be passed on
    for controller in (group / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def wait_for(condition, what: str, log: Path | None = None, seconds: float = WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"{what} did not come within {seconds:.0f} s" + (f"; see {log}" if log else ""))
        time.sleep(0.05)


def enter(settings: Settings, *command: str) -> list[str]:
    """The command line that runs a command in the node."""
    pid = node_pid(settings)
    if not pid:
        raise LabError(f"the lab {settings.lab} is not up: run 'lab up'")
    environment = [f"{k}={v}" for k, v in {**NODE_ENV, "TERM": os.environ.get("TERM", "dumb")}.items()]
    spaces = ["-m", "-u", "-i", "-n", "-p", "-C"]
    return ["nsenter", "-t", str(pid), *spaces, "--", "env", "-i", "-C", "/root", *environment, *command]


def node_run(settings: Settings, *command: str) -> int:
    """`lab run`: the command has our stdin, stdout and stderr; -> its exit code."""
    line = enter(settings, *command)
    return subprocess.run(line, cwd="/", preexec_fn=lambda: join(settings, os.getpid()), check=False).returncode


def node_out(settings: Settings, *command: str, stdin: bytes = b"", check: bool = True) -> str:
    """A command in the node for the lab's own use -> stdout."""
    line = enter(settings, *command)
    done = subprocess.run(
        line, cwd="/", input=stdin, capture_output=True, preexec_fn=lambda: join(settings, os.getpid()), check=False
    )
    if check and done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip() or done.stdout.decode("utf-8", "replace").strip()
        raise LabError(f"in the node: '{' '.join(command)}' failed ({done.returncode}): {words}")
    return done.stdout.decode("utf-8", "replace")


def down(settings: Settings, quiet: bool = False) -> None:
    """Stop and remove all but the cache. Does no harm when there is nothing, or when half of it was killed."""
    pid = node_pid(settings)
    if pid:
        os.kill(pid, signal.SIGTERM)  # its process 1: the kernel then ends everything in its namespaces
    begin = time.monotonic()
    while left := members(settings) - {os.getpid()}:
        waited = time.monotonic() - begin
        if waited > 20:
            raise LabError(f"processes of the lab do not die: {sorted(left)}")
        for other in left:  # the listener sits outside the node's namespaces; after a kill -9 anything may be left
            if not pid or waited > 2 or is_listener(other):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
        time.sleep(0.05)
    drop_groups(settings)
    if os.path.ismount(settings.lab / "cgroup2"):
        run("umount", settings.lab / "cgroup2")
    there = (settings.lab / MARKER).exists()
    if there:
        shutil.rmtree(settings.lab)
    if not quiet:
        say(f"down: {settings.lab}" if there else f"nothing to take down at {settings.lab}")


def is_listener(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"node/listen.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def status(settings: Settings) -> int:
    pid = node_pid(settings)
    if not pid:
        print(f"lab {settings.lab}: down")
        return 1
    print(f"lab {settings.lab}: up, node pve1 at ssh port {settings.read('port')}, cgroup {settings.read('cgroup')}")
    print(f"cache {settings.cache}")
    print(f"ssh -F {settings.lab}/ssh/config pve1")
    sys.stdout.write(node_out(settings, "pct", "list"))
    return 0


# ---------------------------------------------------------------- containers
def address(settings: Settings, vmid: str) -> str:
    """The address in the container's own configuration."""
    text = node_out(settings, "pct", "config", vmid)
    found = re.search(r"^net0:.*\bip=([\d.]+)/", text, re.M)
    return found.group(1) if found else ""


def choose_address(settings: Settings, vmid: str) -> str:
    taken = set(
        re.findall(r"\bip=([\d.]+)/", node_out(settings, "sh", "-c", "cat /etc/pve/lxc/*.conf 2>/dev/null || :"))
    )
    net = settings.read("net")
    wish = [int(vmid)] if 2 <= int(vmid) <= 254 else []
    for number in [*wish, *range(2, 255)]:
        if f"{net}.{number}" not in taken:
            return f"{net}.{number}"
    raise LabError(f"no address left in {net}.0/24")


def data_folder(settings: Settings, vmid: str, suite: str, data: str) -> str:
    """The folder behind the container's /opt/llmhost, as the node sees it; owned by the container's root."""
    if data == "fresh":
        outside = settings.lab / "data" / vmid
        inside = str(outside)
    elif not data:
        key = f"{settings.lab.name}-{vmid}-{suite}"  # two labs never share one unless told so
        outside, inside = settings.cache / "data" / key, f"/srv/llmhost/{key}"
    else:
        outside = Path(os.path.realpath(data))
        below = os.path.relpath(outside, settings.cache)
        if below.startswith("data/"):
            inside = "/srv/llmhost/" + below[len("data/") :]
        elif any(str(outside) == top or str(outside).startswith(top + "/") for top in HIDDEN):
            raise LabError(
                f"--data {data}: the node covers that place; use a folder below /tmp or {settings.cache}/data"
            )
        else:
            inside = str(outside)
    if not outside.is_dir():
        outside.mkdir(parents=True)
        os.chown(outside, *(ROOT_MAP[0],) * 2)
        outside.chmod(0o755)
    return inside


def container(settings: Settings, vmid: str, suite: str, options: list[str], data: str = "") -> None:
    """Create if missing, start if stopped, wait until systemd in it says it runs, make ssh to it work."""
    start = time.monotonic()
    if not re.match(r"^[1-9][0-9]{2,8}$", vmid):
        raise LabError(f"VMID '{vmid}': Proxmox has numbers from 100 to 999999999")
    unprivileged = not re.search(r"(^| )--?unprivileged[ =]0", " ".join(options))
    name = lab_image.build(settings, suite, privileged=not unprivileged)
    lab = settings.lab
    if not node_out(settings, "sh", "-c", f"cat /etc/pve/lxc/{vmid}.conf 2>/dev/null || :"):
        ip = choose_address(settings, vmid)
        defaults = {
            "hostname": f"ct{vmid}",
            "memory": "8192",
            "net0": f"name=eth0,bridge=vmbr0,ip={ip}/24,gw={settings.read('net')}.1",
            "mp0": "/srv/wheelhouse,mp=/srv/wheelhouse,ro=1",
        }
        if data != "none":
            defaults["mp1"] = data_folder(settings, vmid, suite, data) + ",mp=/opt/llmhost"
        given = {word.lstrip("-").partition("=")[0] for word in options if word.startswith("-")}
        extra = [word for key, value in defaults.items() if key not in given for word in (f"--{key}", value)]
        keys = ["--ssh-public-keys", f"{lab}/ssh/id.pub"]
        node_out(settings, "pct", "create", vmid, f"local:vztmpl/{name}", *keys, *extra, *options)
        if not unprivileged and data != "none" and "mp1" not in given:
            say("note: /opt/llmhost belongs to an unprivileged container's root; a privileged one sees it as 100000")
    else:
        made = (lab / "images" / vmid / "template").read_text().strip()
        if made.split("-")[0] != suite:
            raise LabError(f"container {vmid} is there already, of {made}: 'lab run pct destroy {vmid}' first")
    if "running" not in node_out(settings, "pct", "status", vmid):
        node_out(settings, "pct", "start", vmid)
    wait_running(settings, vmid)
    ip = address(settings, vmid)
    if ip:
        trust(settings, vmid, ip)
    say(f"ct{vmid} ({suite}) runs after {time.monotonic() - start:.1f} s: ssh -F {lab}/ssh/config ct{vmid}   ({ip})")


def wait_running(settings: Settings, vmid: str) -> None:
    """Until systemd says `running` (or `degraded`, which is told with its failed units)."""
    state = ""

    def settled() -> bool:
        nonlocal state
        ask = ("pct", "exec", vmid, "--keep-env", "0", "--", "systemctl", "is-system-running", "--wait")
        state = node_out(settings, *ask, check=False).strip()
        return state in ("running", "degraded")

    try:
        wait_for(settled, f"systemd in container {vmid}")
    except LabError as error:
        log = node_out(settings, "tail", "-n", "5", f"/var/log/lxc/{vmid}.log", check=False)
        raise LabError(f"{error} (it says '{state}')\n{log}") from None
    if state == "degraded":
        failed = node_out(settings, "pct", "exec", vmid, "--", "systemctl", "--failed", "--plain", "--no-legend")
        say(f"ct{vmid}: systemd is degraded: {failed.strip()}")


def trust(settings: Settings, vmid: str, ip: str) -> None:
    """Known host key and ssh alias of a container. The key is read through the node, not from the network."""
    key = node_out(settings, "pct", "exec", vmid, "--", "cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
    ssh = settings.lab / "ssh"
    known, config = ssh / "known_hosts", ssh / "config"
    lines = [line for line in known.read_text().splitlines() if line.split(" ")[0] != ip]
    known.write_text("\n".join([*lines, f"{ip} {' '.join(key)}"]) + "\n")
    block = f"Host ct{vmid} {ip}\n  HostName {ip}\n  ProxyJump pve1\n"
    if block not in config.read_text():
        text = re.sub(rf"Host ct{vmid} .*\n.*\n.*\n", "", config.read_text())
        config.write_text(text + block)


def inventory(settings: Settings, vmids: list[str], way: str = "") -> None:
    """The generated part of an inventory: addresses and ways in, no groups and no settings. ``way`` is a connection
    plugin that goes through the node; without one it is ssh to the container. One that is not there can be named."""
    if not vmids:
        vmids = re.findall(r"^(\d+) +running", node_out(settings, "pct", "list"), re.M)
    ssh, port = settings.lab / "ssh", settings.read("port")
    print("# Generated by 'lab inventory': addresses and ways in alone.")
    if way.startswith("community"):
        print(
            f"# The connection plugin knows hosts only by ~/.ssh/known_hosts: run Ansible with HOME={settings.lab}/home"
        )
    print("all:\n  hosts:")
    print(f"    pve1:\n      ansible_host: 127.0.0.1\n      ansible_port: {port}")
    common(ssh)
    for vmid in vmids:
        print(f"    ct{vmid}:\n      proxmox_vmid: {vmid}")
        if way:
            print(f"      ansible_connection: {way}")
            print(f"      ansible_host: 127.0.0.1\n      ansible_port: {port}")
        else:
            print(f"      ansible_host: {address(settings, vmid)}")
        common(ssh, way.startswith("community"))


def common(ssh: Path, paramiko: bool = False) -> None:
    print(f"      ansible_user: root\n      ansible_ssh_private_key_file: {ssh}/id")
    print("      ansible_python_interpreter: /usr/bin/python3")
    if not paramiko:
        print(f"      ansible_ssh_common_args: -F {ssh}/config")
