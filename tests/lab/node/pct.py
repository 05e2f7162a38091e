# SPDX-License-Identifier: GPL-3.0-or-later
"""A small stand-in for Proxmox VE's `pct`, over real LXC (lxc-start, lxc-attach, ...). For tests only.

Own code, written against the observed behaviour of pct. A container's name is its VMID, lxcpath is /var/lib/lxc,
configuration is /etc/pve/lxc/VMID.conf in Proxmox's syntax, locks are /run/lock/lxc/pve-config-VMID.lock.

Storage: POOL/templates/NAME/{priv,unpriv}/  one unpacked rootfs per image
         POOL/images/VMID/{upper,work}       what a container changed (overlayfs)
`rootfs: local:VMID/vm-VMID-disk-0.raw,size=4G` in a configuration stands for that. The overlay is mounted by the
pre-start hook (this same file, `pct __hook-...`) in the monitor's own mount namespace (lxc.monitor.unshare = 1) and
by real root, so it works with an id map and goes away with the container.

A cluster is what its files say: /etc/pve/.members (quorate or not), /etc/pve/nodes/OTHER/lxc/VMID.conf and
/etc/pve/ha/resources.cfg. HA's manager is a process that starts or stops a container a moment after it was asked.

Left out: users and permissions, real storages, ip=dhcp, AppArmor (unconfined), hook scripts, `features`, cloning,
snapshots (their sections in a configuration are kept and read), hotplug of devices and mount points.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import sys
import time


class Lazy:
    """A module loaded at first use: `pct exec` needs none of these, and is what a test calls most."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, key):
        return getattr(__import__(self._name), key)


errno, fcntl, grp, pwd = Lazy("errno"), Lazy("fcntl"), Lazy("grp"), Lazy("pwd")
glob, hashlib, json = Lazy("glob"), Lazy("hashlib"), Lazy("json")
shutil, subprocess = Lazy("shutil"), Lazy("subprocess")

ETC = "/etc/pve/lxc"
LXC = "/var/lib/lxc"
LOCKS = "/run/lock/lxc"
POOL = "/var/lib/pct-standin"
SELF = "/usr/sbin/pct"
ROOT_MAP = 100000, 65536
# `pct set` applies these to a running container; the rest waits in [pve:pending] for the next start.
FAST = {"description", "onboot", "startup", "protection", "hostname", "hookscript", "cores", "tags", "lock"}
LIVE = {"memory", "swap", "cpulimit", "cpuunits"}
KEYS = re.compile(
    r"^(?:arch|cmode|console|cores|cpulimit|cpuunits|debug|description|dev\d+|entrypoint|env|features|hookscript|"
    r"hostname|lock|memory|mp\d+|nameserver|net\d+|onboot|ostype|protection|rootfs|searchdomain|startup|swap|tags|"
    r"template|timezone|tty|unprivileged|unused\d+)$"
)
# Options of `create` and `set` that are no keys of the configuration.
EXTRA = {"delete", "revert", "digest", "start", "storage", "password", "ssh-public-keys"}
WORDS = re.compile(r"[,;\s]+")


class Die(Exception):
    """What `die "text\\n"` is in pct: text to stderr. Perl's exit code is then the last errno, or 255."""

    def __init__(self, text, rc=255):
        super().__init__(text)
        self.text, self.rc = text, rc


def node():
    return os.uname().nodename.split(".")[0]


def words(text):
    return [word for word in WORDS.split(text) if word]


# ---------------------------------------------------------------- configuration files
def decode(text):
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), text)


def encode(text):
    return "".join(c if c.isprintable() and c != "%" else "%%%02X" % ord(c) for c in text)


def parse(text):
    """-> (main, pending, {snapshot: configuration}); raw lxc.* pairs are a list under the key 'lxc'."""
    main, pending, snapshots = {}, {}, {}
    current, description = main, ""

    def close():
        if description:
            current["description"] = description

    for line in text.split("\n"):
        if not line.strip():
            continue
        if m := re.match(r"^\[([a-zA-Z][\w:\-]+)\]\s*$", line):
            close()
            description = ""
            name = m.group(1)
            current = pending if name.lower() == "pve:pending" else snapshots.setdefault(name, {})
        elif line.startswith("#"):
            description += decode(line[1:]) + "\n"
        elif m := re.match(r"^(lxc\.[a-z0-9_.\-]+)(?::|\s*=)\s*(.*?)\s*$", line):
            current.setdefault("lxc", []).append((m.group(1), m.group(2)))
        elif m := re.match(r"^description:\s*(.*\S)\s*$", line):
            description += decode(m.group(1))
        elif m := re.match(r"^([a-z][a-z_]*\d*):\s*(.+?)\s*$", line):
            current[m.group(1)] = m.group(2)
        else:
            sys.stderr.write("unable to parse config: %s\n" % line)
    close()
    return main, pending, snapshots


def section(conf):
    out = ["#%s\n" % encode(line) for line in conf.get("description", "").split("\n") if line]
    out += ["%s: %s\n" % (k, conf[k]) for k in sorted(conf) if k not in ("description", "lxc")]
    out += ["%s: %s\n" % pair for pair in conf.get("lxc", [])]
    return "".join(out)


def render(main, pending, snapshots):
    text = section(main)
    if pending:
        text += "\n[pve:pending]\n" + section(pending)
    for name in sorted(snapshots):
        text += "\n[%s]\n" % name + section(snapshots[name])
    return text


def load(vmid):
    try:
        with open("%s/%s.conf" % (ETC, vmid)) as handle:
            return parse(handle.read())
    except FileNotFoundError:
        text = "Configuration file 'nodes/%s/lxc/%s.conf' does not exist" % (node(), vmid)
        raise Die(text, errno.ENOENT) from None


def quorum():
    """Without it /etc/pve is read-only, and nothing is started."""
    try:
        with open("/etc/pve/.members") as handle:
            members = json.load(handle)
    except FileNotFoundError:
        return
    if not members.get("cluster", {}).get("quorate", 1):
        raise Die("cluster not ready - no quorum?")


def store(vmid, main, pending, snapshots):
    quorum()
    aside = "%s/%s.conf.tmp.%d" % (ETC, vmid, os.getpid())
    with open(aside, "w") as handle:
        handle.write(render(main, pending, snapshots))
    os.chmod(aside, 0o640)
    os.rename(aside, "%s/%s.conf" % (ETC, vmid))


def props(value, default=None):
    """`name=eth0,bridge=vmbr0` -> dict; a part without '=' is the default key's."""
    out = {}
    for part in value.split(","):
        key, equals, rest = part.partition("=")
        if equals:
            out[key] = rest
        elif default:
            out[default] = part
    return out


def apply(main, pending):
    """What a configuration is after its pending changes."""
    main, pending = dict(main), dict(pending)
    for key in words(pending.pop("delete", "")):
        main.pop(key.lstrip("!"), None)
    main.update(pending)
    return main


# ---------------------------------------------------------------- state
def active():
    """Running containers, found as pct finds them: by LXC's abstract command sockets."""
    with open("/proc/net/unix") as handle:
        return set(re.findall(r"@/var/lib/lxc/(\d+)/command$", handle.read(), re.M))


def running(vmid):
    return vmid in active()


def init_pid(vmid):
    done = subprocess.run(["lxc-info", "-n", vmid, "-pH"], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise Die("unable to get PID for CT %s (not running?)" % vmid)
    return int(done.stdout)


class Lock:
    def __init__(self, vmid, timeout=10):
        self.path, self.timeout = "%s/pve-config-%s.lock" % (LOCKS, vmid), timeout

    def __enter__(self):
        os.makedirs(LOCKS, exist_ok=True)
        self.handle = open(self.path, "a")  # noqa: SIM115 (closed in __exit__: closing is what unlocks)
        end, told = time.monotonic() + self.timeout, False
        while True:
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    sys.stderr.write("trying to acquire lock...\n")
                    told = True
                if time.monotonic() > end:
                    raise Die("can't lock file '%s' - got timeout" % self.path) from None
                time.sleep(0.05)
            else:
                if told:
                    sys.stderr.write(" OK\n")
                return self

    def __exit__(self, *dummy):
        self.handle.close()


def check_lock(conf):
    if conf.get("lock"):
        raise Die("CT is locked (%s)" % conf["lock"])


# ---------------------------------------------------------------- LXC's own configuration
def lxc_config(vmid, conf):
    """Write /var/lib/lxc/VMID/config from a Proxmox configuration."""
    home = "%s/%s" % (LXC, vmid)
    os.makedirs(home + "/rootfs", exist_ok=True)
    own_map = any(key == "lxc.idmap" for key, dummy in conf.get("lxc", []))
    unprivileged = conf.get("unprivileged") == "1" or own_map
    out = [
        "lxc.cgroup.relative = 0",
        "lxc.cgroup.dir.monitor = lxc.monitor/" + vmid,
        "lxc.cgroup.dir.container = lxc/" + vmid,
        "lxc.cgroup.dir.container.inner = ns",
        "lxc.arch = " + conf.get("arch", "amd64"),
    ]

    def include(kind):
        share = "/usr/share/lxc/config"
        special = "%s/%s.%s.conf" % (share, conf.get("ostype", "debian"), kind)
        out.append("lxc.include = " + (special if os.path.exists(special) else "%s/%s.conf" % (share, kind)))

    include("common")
    if unprivileged:
        include("userns")
        # As Proxmox: a deny-list. Otherwise one devices.allow line would shut out /dev/null and the rest.
        out += [
            "lxc.cgroup2.devices.deny =",
            "lxc.cgroup2.devices.allow =",
            "lxc.cgroup2.devices.allow = a",
            "lxc.mount.auto = sys:mixed",
        ]
    out += [
        "lxc.apparmor.profile = unconfined",
        "lxc.monitor.unshare = 1",
        "lxc.console.path = none",
        "lxc.tty.max = " + conf.get("tty", "2"),
        "lxc.environment = TERM=linux",
        "lxc.uts.name = " + conf.get("hostname", "CT" + vmid),
        "lxc.rootfs.path = dir:%s/rootfs" % home,
        "lxc.hook.version = 1",
        "lxc.hook.pre-start = %s __hook-prestart" % SELF,
        "lxc.hook.autodev = %s __hook-autodev" % SELF,
    ]
    if unprivileged and not own_map:
        out += ["lxc.idmap = %s 0 %d %d" % (kind, *ROOT_MAP) for kind in "ug"]
    for key in sorted(conf):
        out += lxc_lines(vmid, key, conf[key])
    if os.path.isdir("/sys/fs/cgroup/devices"):  # LAB_CGROUP=hybrid: cgroup v1 guards the devices there
        out += [
            line.replace("cgroup2", "cgroup", 1) for line in out if line.startswith("lxc.cgroup2.devices.allow = c ")
        ]
    if not any(re.match(r"^net\d+$", key) for key in conf):
        out.append("lxc.net.0.type = empty")
    out += memory_lines(conf)
    out += ["%s = %s" % pair for pair in conf.get("lxc", [])]
    with open(home + "/config", "w") as handle:
        handle.write("\n".join(out) + "\n")


def lxc_lines(vmid, key, value):
    """LXC's lines for one device, mount point or network card of Proxmox."""
    if re.match(r"^dev\d+$", key):
        dev = props(value, "path")
        mode, rdev = device(dev["path"])
        kind, access = "b" if stat.S_ISBLK(mode) else "c", "r" if dev.get("deny-write") == "1" else "rw"
        return ["lxc.cgroup2.devices.allow = %s %d:%d %s" % (kind, os.major(rdev), os.minor(rdev), access)]
    if re.match(r"^mp\d+$", key):
        mount = props(value, "volume")
        source = mount["volume"]
        if not source.startswith("/"):
            source = "%s/images/%s/%s" % (POOL, vmid, key)
        read_only = ",ro" if mount.get("ro") == "1" else ""
        target = mount["mp"].lstrip("/")
        return ["lxc.mount.entry = %s %s none bind,create=dir%s 0 0" % (source, target, read_only)]
    m = re.match(r"^net(\d+)$", key)
    if not m:
        return []
    card, number = props(value), m.group(1)
    prefix = "lxc.net.%s." % number
    out = [
        prefix + "type = veth",
        prefix + "veth.pair = veth%si%s" % (vmid, number),
        prefix + "flags = up",
        prefix + "name = " + card.get("name", "eth" + number),
    ]
    for option, name in (("bridge", "link"), ("hwaddr", "hwaddr"), ("mtu", "mtu"), ("gw", "ipv4.gateway")):
        if card.get(option):
            out.append(prefix + "%s = %s" % (name, card[option]))
    if card.get("ip") not in (None, "dhcp", "manual"):
        out.append(prefix + "ipv4.address = " + card["ip"])
    return out


def memory_lines(conf):
    """Limits, where the memory controller is the node's to give."""
    memory, swap = int(conf.get("memory", 512)) << 20, int(conf.get("swap", 0)) << 20
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        with open("/sys/fs/cgroup/cgroup.controllers") as handle:
            if "memory" in handle.read().split():
                return ["lxc.cgroup2.memory.max = %d" % memory, "lxc.cgroup2.memory.swap.max = %d" % swap]
    elif os.path.isdir("/sys/fs/cgroup/memory"):
        return ["lxc.cgroup.memory.limit_in_bytes = %d" % memory]
    return []


def device(path):
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise Die("Device %s does not exist" % path) from None
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)):
        raise Die("%s is not a device" % path)
    return found.st_mode, found.st_rdev


def run(*command):
    subprocess.run(command, check=True)


def hook_prestart(vmid):
    """Mount the rootfs and write what Proxmox writes into it at creation and start."""
    conf = load(vmid)[0]
    image, root = "%s/images/%s" % (POOL, vmid), "%s/%s/rootfs" % (LXC, vmid)
    unprivileged = conf.get("unprivileged") == "1"
    with open(image + "/template") as handle:
        base = "%s/templates/%s/%s" % (POOL, handle.read().strip(), "unpriv" if unprivileged else "priv")
    if not os.path.isdir(base):
        raise Die("no such template: %s" % base)
    offset = ROOT_MAP[0] if unprivileged else 0
    for name in ("upper", "work"):
        if not os.path.isdir("%s/%s" % (image, name)):
            os.makedirs("%s/%s" % (image, name))
            os.chown("%s/%s" % (image, name), offset, offset)
    options = "lowerdir=%s,upperdir=%s/upper,workdir=%s/work" % (base, image, image)
    run("mount", "-t", "overlay", "overlay", "-o", options, root)

    def put(path, text, mode=0o644):
        place = os.path.join(root, path)
        if not os.path.isdir(os.path.dirname(place)):
            os.mkdir(os.path.dirname(place), 0o700)
            os.chown(os.path.dirname(place), offset, offset)
        if os.path.islink(place):
            os.unlink(place)
        with open(place, "w") as handle:
            handle.write(text)
        os.chown(place, offset, offset)
        os.chmod(place, mode)

    name = conf.get("hostname", "CT" + vmid)
    hosts = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    address = props(conf.get("net0", "")).get("ip", "").split("/")[0]
    hosts.append("%s %s" % (address if re.match(r"^[\d.]+$", address) else "127.0.1.1", name))
    put("etc/hostname", name + "\n")
    put("etc/hosts", "\n".join(hosts) + "\n")
    put("etc/resolv.conf", "".join("nameserver %s\n" % n for n in conf.get("nameserver", "").split()))
    if not os.path.exists(image + "/born"):  # at creation, once
        if os.path.isdir(root + "/etc/ssh"):
            key = "etc/ssh/ssh_host_ed25519_key"
            made = image + "/host_key"
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", made)
            for end, mode in (("", 0o600), (".pub", 0o644)):
                with open(made + end) as handle:
                    put(key + end, handle.read(), mode)
                os.unlink(made + end)
        if os.path.exists(image + "/ssh-public-keys"):
            with open(image + "/ssh-public-keys") as handle:
                put("root/.ssh/authorized_keys", handle.read(), 0o600)
        open(image + "/born", "w").close()
    passthrough(vmid, conf, offset)


def passthrough(vmid, conf, offset):
    """Device nodes with the owner and mode that the container shall see."""
    devices = [props(conf[key], "path") for key in sorted(conf) if re.match(r"^dev\d+$", key)]
    top = "%s/%s/passthrough" % (LXC, vmid)
    os.makedirs(top, exist_ok=True)
    if not devices:
        return
    run("mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "none", top)
    for dev in devices:
        mode, rdev = device(dev["path"])
        place = top + dev["path"]
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.mknod(place, stat.S_IFMT(mode) | 0o600, rdev)
        os.chown(place, int(dev.get("uid", 0)) + offset, int(dev.get("gid", 0)) + offset)
        os.chmod(place, int(dev.get("mode", "0660"), 8))


def hook_autodev(vmid):
    top, root = "%s/%s/passthrough" % (LXC, vmid), os.environ["LXC_ROOTFS_MOUNT"]
    for folder, _folders, files in os.walk(top):
        for name in files:
            source = os.path.join(folder, name)
            place = root + source[len(top) :]
            os.makedirs(os.path.dirname(place), exist_ok=True)
            open(place, "a").close()
            run("mount", "--bind", source, place)


# ---------------------------------------------------------------- commands
def cmd_list(args, opts):
    now = active()
    names = os.listdir(ETC) if os.path.isdir(ETC) else []
    vmids = sorted(int(name[:-5]) for name in names if re.match(r"^\d+\.conf$", name))
    if vmids:
        print("%-10s %-10s %-12s %-20s" % ("VMID", "Status", "Lock", "Name"))
    for vmid in vmids:
        conf = load(str(vmid))[0]
        state = "running" if str(vmid) in now else "stopped"
        print("%-10s %-10s %-12s %-20s" % (vmid, state, conf.get("lock", ""), conf.get("hostname", "CT%d" % vmid)))


def cmd_status(args, opts):
    (vmid,) = args
    conf, alive = load(vmid)[0], running(vmid)
    if not opts.get("verbose"):
        print("status: " + ("running" if alive else "stopped"))
        return
    state = {
        "cpus": conf.get("cores", os.cpu_count()),
        "maxmem": int(conf.get("memory", 512)) << 20,
        "maxswap": int(conf.get("swap", 512)) << 20,
        "name": conf.get("hostname", "CT" + vmid),
        "status": "running" if alive else "stopped",
        "type": "lxc",
        "vmid": vmid,
    }
    if alive:
        state["pid"] = init_pid(vmid)
    for key in sorted(state):
        print("%s: %s" % (key, state[key]))


def cmd_config(args, opts):
    (vmid,) = args
    main, pending, snapshots = load(vmid)
    if opts.get("snapshot"):
        if opts["snapshot"] not in snapshots:
            raise Die("snapshot '%s' does not exist" % opts["snapshot"])
        main = snapshots[opts["snapshot"]]
    elif not truth(opts.get("current")):
        main = apply(main, pending)
    for key in sorted(main):
        if key != "lxc":
            print("%s: %s" % (key, encode(main[key]) if key == "description" else main[key]))
    for pair in main.get("lxc", []):
        print("%s: %s" % pair)


def cmd_pending(args, opts):
    (vmid,) = args
    main, pending, dummy = load(vmid)
    gone_keys = words(pending.get("delete", ""))
    for key in sorted((set(main) | set(pending)) - {"lxc", "delete"}):
        if key in gone_keys:
            print("del %s: %s" % (key, main.get(key, "")))
        elif key in pending:
            if key in main:
                print("cur %s: %s" % (key, main[key]))
            print("new %s: %s" % (key, pending[key]))
        else:
            print("cur %s: %s" % (key, main[key]))


def change(main, pending, opts, delete, revert, live):
    """What `pct set` makes of a configuration -> (main, pending). Pure, so that it can be tested alone."""
    main, pending = dict(main), dict(pending)
    for key in revert:
        pending.pop(key, None)
    queue = [key for key in words(pending.get("delete", "")) if key not in revert]
    for key, value in opts.items():
        if key in queue:
            queue.remove(key)
        if not live or key in FAST or key in LIVE:
            main[key] = value
            pending.pop(key, None)
        else:
            pending[key] = value
    for key in delete:
        pending.pop(key, None)
        if not live or key in FAST:
            main.pop(key, None)
        elif key in main and key not in queue:
            queue.append(key)
    pending.pop("delete", None)
    if queue:
        pending["delete"] = ",".join(queue)
    return main, pending


def cmd_set(args, opts):
    (vmid,) = args
    if not opts:
        raise Die("no options specified")
    opts = dict(opts)
    delete, revert = words(opts.pop("delete", "")), words(opts.pop("revert", ""))
    digest = opts.pop("digest", "")
    with Lock(vmid):
        main, pending, snapshots = load(vmid)
        if digest:
            with open("%s/%s.conf" % (ETC, vmid), "rb") as handle:
                if hashlib.sha1(handle.read()).hexdigest() != digest:
                    raise Die("detected modified configuration - file changed by other user? Try again.")
        check_lock(main)
        for key in delete + revert:
            if not KEYS.match(key):
                what = "delete" if key in delete else "revert"
                raise Die("400 Parameter verification failed.\n%s: unknown option '%s'" % (what, key))
        for key, value in opts.items():
            if re.match(r"^dev\d+$", key):
                device(props(value, "path").get("path", ""))
        live = running(vmid)
        main, pending = change(main, pending, opts, delete, revert, live)
        store(vmid, main, pending, snapshots)
        if live and "memory" in opts:
            for path in ("lxc/%s/memory.max", "memory/lxc/%s/memory.limit_in_bytes"):
                path = "/sys/fs/cgroup/" + path % vmid
                if os.path.exists(path):
                    with open(path, "w") as handle:
                        handle.write(str(int(opts["memory"]) << 20))
        lxc_config(vmid, main)


def by_ha(vmid, what, work):
    """Whether HA decides about a container: then the request is noted, and comes true a moment later."""
    try:
        with open("/etc/pve/ha/resources.cfg") as handle:
            managed = re.search(r"^ct:\s*%s\s*$" % vmid, handle.read(), re.M)
    except FileNotFoundError:
        return False
    if not managed or os.environ.get("PVE_HA_MANAGER"):
        return False
    print("Requesting HA %s for CT %s" % (what, vmid), flush=True)
    null = subprocess.DEVNULL
    subprocess.Popen(
        ["sh", "-c", "sleep 0.5; exec %s %s %s" % (SELF, work, vmid)],
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
        env={**os.environ, "PVE_HA_MANAGER": "1"},
    )
    return True


def cmd_start(args, opts):
    (vmid,) = args
    if running(vmid):
        raise Die("CT %s already running" % vmid)
    if by_ha(vmid, "start", "start"):
        return
    quorum()
    with Lock(vmid):
        try:
            main, pending, snapshots = load(vmid)
        except Die as error:
            raise Die(error.text) from None  # start loads it in its worker: always 255
        check_lock(main)
        if main.get("template") == "1":
            raise Die("you can't start a CT if it's a template")
        if pending:
            main, pending = apply(main, pending), {}
            store(vmid, main, pending, snapshots)
        lxc_config(vmid, main)
        os.makedirs("/var/log/lxc", exist_ok=True)
        log = "/var/log/lxc/%s.log" % vmid
        done = subprocess.run(
            ["lxc-start", "-d", "-n", vmid, "-l", "WARN", "-o", log],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
            raise Die("startup for container '%s' failed" % vmid)


def gone(vmid, timeout):
    end = time.monotonic() + timeout
    while running(vmid):
        if time.monotonic() > end:
            raise Die("container did not stop")
        time.sleep(0.02)


def cmd_stop(args, opts):
    (vmid,) = args
    if not running(vmid):
        raise Die("CT %s not running" % vmid)
    if by_ha(vmid, "stop", "stop"):
        return
    with Lock(vmid):
        subprocess.run(["lxc-stop", "-n", vmid, "--kill"], check=False)
        gone(vmid, 30)


def cmd_shutdown(args, opts):
    (vmid,) = args
    if not running(vmid):
        raise Die("CT %s not running" % vmid)
    command = ["lxc-stop", "-n", vmid, "--timeout", opts.get("timeout", "60")]
    if not truth(opts.get("forceStop")):
        command.append("--nokill")
    with Lock(vmid):
        if subprocess.run(command, check=False).returncode:
            raise Die("command '%s' failed: exit code 1" % " ".join(command))
        gone(vmid, 5)


def cmd_reboot(args, opts):
    cmd_shutdown(args, {"timeout": opts.get("timeout", "60"), "forceStop": "1"})
    cmd_start(args, {})


def cmd_exec(args, opts):
    vmid, command = args[0], args[1:]
    load(vmid)
    if not running(vmid):
        raise Die("container '%s' not running!" % vmid)
    if not command:
        raise Die("missing command at /usr/share/perl5/PVE/CLI/pct.pm line 238.")
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ.pop("SSL_CERT_DIR", None)
    keep = "--keep-env" if truth(opts.get("keep-env", "1")) else "--clear-env"
    os.execvp("lxc-attach", ["lxc-attach", "-n", vmid, keep, "--", *command])


def cmd_enter(args, opts):
    (vmid,) = args
    load(vmid)
    if not running(vmid):
        raise Die("container '%s' not running!" % vmid)
    os.execvp("lxc-attach", ["lxc-attach", "-n", vmid, "--keep-env"])


def setns(pid, kinds):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for handle in [os.open("/proc/%d/ns/%s" % (pid, kind), os.O_RDONLY) for kind in kinds]:
        if libc.setns(handle, 0):
            raise Die("failed to enter the container's namespace: %s" % os.strerror(ctypes.get_errno()))
        os.close(handle)
    os.chdir("/")


def create_file(path, opts):
    def number(value, database, what):
        if value is None or value.isdigit():
            return -1 if value is None else int(value)
        try:
            return database(value)[2]
        except KeyError:
            raise Die("failed to get %s for: %s" % (what, value)) from None

    uid = number(opts.get("user"), pwd.getpwnam, "uid")
    gid = number(opts.get("group"), grp.getgrnam, "gid")
    mode = opts.get("perms")
    if mode is not None:
        try:
            mode = int(mode, 16 if mode.lower().startswith("0x") else 8)
        except ValueError:
            raise Die("invalid mode: '%s'" % opts["perms"]) from None
    try:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0)
            if mode is None:
                mask = os.umask(0)
                os.umask(mask)
                mode = 0o666 & ~mask
        except OSError:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise Die("failed to create file: %s: %s" % (path, error.strerror)) from None
    if mode is not None:
        os.fchmod(handle, mode)
    if uid != -1 or gid != -1:
        os.fchown(handle, uid, gid)
    return handle


def worker(work):
    """push and pull run in a forked worker whose failure pct reports on stderr but leaves its exit code 0."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            work()
        except Die as error:
            sys.stderr.write(error.text + "\n")
        except OSError as error:
            sys.stderr.write("%s\n" % error)
        os._exit(0)
    os.waitpid(pid, 0)


def cmd_push(args, opts):
    vmid, source, target = args
    with Lock(vmid):
        if not running(vmid):
            raise Die("can only push files to a running CT")
        unprivileged = load(vmid)[0].get("unprivileged") == "1"

        def work():
            pid = init_pid(vmid)
            try:
                read = open(source, "rb")  # noqa: SIM115 (opened before the namespace changes, read after)
            except OSError:
                raise Die("failed to open %s for reading" % source) from None
            pwd.getpwuid(0)
            grp.getgrgid(0)
            setns(pid, ["mnt", "user"] if unprivileged else ["mnt"])
            if unprivileged:
                os.setgroups([])
                os.setgid(0)
                os.setuid(0)
            with os.fdopen(create_file(target, opts), "wb") as write:
                shutil.copyfileobj(read, write)

        worker(work)


def cmd_pull(args, opts):
    vmid, source, target = args
    with Lock(vmid):
        if not running(vmid):
            raise Die("can only pull files from a running VM")

        def work():
            pid = init_pid(vmid)
            with os.fdopen(create_file(target, opts), "wb") as write:
                setns(pid, ["mnt"])
                try:
                    read = open(source, "rb")  # noqa: SIM115 (the process ends here)
                except OSError as error:
                    raise Die("failed to open %s: %s" % (source, error.strerror)) from None
                shutil.copyfileobj(read, write)

        worker(work)


def cmd_unlock(args, opts):
    (vmid,) = args
    with Lock(vmid):
        main, pending, snapshots = load(vmid)
        if not main.pop("lock", None):
            raise Die("no lock found trying to remove  lock")
        store(vmid, main, pending, snapshots)


def unpacked(tarball):
    """A tarball of the node as a template of its own, for unprivileged containers: their ids begin at 100000."""
    if not os.path.isfile(tarball):
        raise Die("unable to create CT - can't access '%s'" % tarball)
    name = "file-" + hashlib.sha1(("%s %d" % (tarball, os.path.getmtime(tarball))).encode()).hexdigest()[:12]
    place = "%s/templates/%s/unpriv" % (POOL, name)
    if not os.path.isdir(place):
        os.makedirs(place)
        if subprocess.run(["tar", "-C", place, "--numeric-owner", "-xpf", tarball], check=False).returncode:
            shutil.rmtree(os.path.dirname(place))
            raise Die("unable to create CT - unable to extract '%s'" % tarball)
        for folder, folders, files in os.walk(place):
            for path in [folder, *(os.path.join(folder, one) for one in folders + files)]:
                found = os.lstat(path)
                if found.st_uid < ROOT_MAP[0]:
                    os.lchown(path, found.st_uid + ROOT_MAP[0], found.st_gid + ROOT_MAP[0])
                    if not stat.S_ISLNK(found.st_mode):
                        os.chmod(path, stat.S_IMODE(found.st_mode))  # chown takes setuid away
    return name


def cmd_create(args, opts):
    """create VMID TEMPLATE [options]; TEMPLATE is a tarball, or local:vztmpl/NAME, a folder below POOL/templates."""
    vmid, template = args
    quorum()
    for path in glob.glob("/etc/pve/nodes/*/*/%s.conf" % vmid):
        kind = "CT" if "/lxc/" in path else "VM"
        raise Die("unable to create CT %s - %s %s already exists on node '%s'" % (vmid, kind, vmid, path.split("/")[4]))
    name = unpacked(template) if template.startswith("/") else template.split("/")[-1]
    if not os.path.isdir("%s/templates/%s" % (POOL, name)):
        raise Die("unable to create CT %s - volume '%s' does not exist" % (vmid, template))
    conf = {"arch": "amd64", "memory": "512", "swap": "512", "ostype": "debian", "unprivileged": "1"}
    conf.update({key: value for key, value in opts.items() if KEYS.match(key)})
    conf["rootfs"] = "local:%s/vm-%s-disk-0.raw,size=4G" % (vmid, vmid)
    if conf["unprivileged"] == "0":
        del conf["unprivileged"]
    image = "%s/images/%s" % (POOL, vmid)
    os.makedirs(image)
    with open(image + "/template", "w") as handle:
        handle.write(name)
    if opts.get("ssh-public-keys"):
        shutil.copyfile(opts["ssh-public-keys"], image + "/ssh-public-keys")
    store(vmid, conf, {}, {})
    if truth(opts.get("start")):
        cmd_start([vmid], {})


def cmd_destroy(args, opts):
    (vmid,) = args
    if load(vmid)[0].get("protection") == "1":
        raise Die("can't remove CT %s - protection mode enabled" % vmid)
    quorum()
    if running(vmid):
        if not truth(opts.get("force")):
            raise Die("cannot destroy CT %s - it is running" % vmid)
        cmd_stop([vmid], {})
    os.unlink("%s/%s.conf" % (ETC, vmid))
    for folder in ("%s/images/%s" % (POOL, vmid), "%s/%s" % (LXC, vmid)):
        shutil.rmtree(folder, ignore_errors=True)


def truth(value):
    return value is not None and value.lower() in ("", "1", "on", "yes", "true")


# name: (function, fixed arguments, takes more, options with a value or None for a configuration's keys, flags)
COMMANDS = {
    "list": (cmd_list, [], False, set(), set()),
    "status": (cmd_status, ["vmid"], False, set(), {"verbose"}),
    "config": (cmd_config, ["vmid"], False, {"snapshot"}, {"current"}),
    "pending": (cmd_pending, ["vmid"], False, set(), set()),
    "set": (cmd_set, ["vmid"], False, None, set()),
    "start": (cmd_start, ["vmid"], False, set(), {"skiplock", "debug"}),
    "stop": (cmd_stop, ["vmid"], False, set(), {"skiplock", "overrule-shutdown"}),
    "shutdown": (cmd_shutdown, ["vmid"], False, {"timeout"}, {"forceStop"}),
    "reboot": (cmd_reboot, ["vmid"], False, {"timeout"}, set()),
    "exec": (cmd_exec, ["vmid"], True, set(), {"keep-env"}),
    "enter": (cmd_enter, ["vmid"], False, set(), {"keep-env"}),
    "push": (cmd_push, ["vmid", "file", "destination"], False, {"user", "group", "perms"}, set()),
    "pull": (cmd_pull, ["vmid", "path", "destination"], False, {"user", "group", "perms"}, set()),
    "unlock": (cmd_unlock, ["vmid"], False, set(), set()),
    "create": (cmd_create, ["vmid", "ostemplate"], False, None, {"start"}),
    "destroy": (cmd_destroy, ["vmid"], False, set(), {"force", "purge"}),
}


def usage(name):
    dummy, fixed, more, *dummies = COMMANDS[name]
    arguments = "".join("<%s> " % word for word in fixed) + ("[<extra-args>] " if more else "")
    return "pct %s %s[OPTIONS]" % (name, arguments)


def known_options(valued, flags, key):
    if valued is None:
        return [key] if KEYS.match(key) or key in EXTRA else []
    every = valued | flags
    exact = [name for name in every if name.lower() == key.lower()]
    return exact or [name for name in every if name.lower().startswith(key.lower())]


def getopt(name, argv):
    """Perl's Getopt::Long as pct sets it up: options anywhere up to '--', by '-' or '--', unique beginnings."""
    dummy, fixed, more, valued, flags = COMMANDS[name]
    args, opts, bad = [], {}, False
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            args += rest
            break
        m = re.match(r"^--?([A-Za-z][\w\-]*)(?:=(.*))?$", word, re.S)
        if not m:
            args.append(word)
            continue
        found = known_options(valued, flags, m.group(1))
        if len(found) != 1:
            sys.stderr.write("Unknown option: %s\n" % m.group(1))
            bad = True
            continue
        key, value = found[0], m.group(2)
        if value is None and key in flags:
            boolean = rest and re.match(r"^(0|1|on|off|yes|no|true|false)$", rest[0])
            value = rest.pop(0) if boolean else "1"
        elif value is None:
            if not rest:
                sys.stderr.write("Option %s requires an argument\n" % key)
                bad = True
                continue
            value = rest.pop(0)
        opts[key] = value
    if bad:
        raise Die("400 unable to parse option\n" + usage(name))
    if len(args) < len(fixed):
        raise Die("400 not enough arguments\n" + usage(name))
    if len(args) > len(fixed) and not more:
        raise Die("400 too many arguments\n" + usage(name))
    if fixed and not re.match(r"^[1-9][0-9]{2,8}$", args[0]):
        why = "invalid format - value does not look like a valid VM ID"
        if not re.match(r"^-?\d+$", args[0]):
            why = "type check ('integer') failed - got '%s'" % args[0]
        raise Die("400 Parameter verification failed.\nvmid: %s\n%s" % (why, usage(name)))
    return args, opts


HOOKS = {"__hook-prestart": hook_prestart, "__hook-autodev": hook_autodev}


def main(argv):
    os.environ["PATH"] = "/sbin:/bin:/usr/sbin:/usr/bin"
    with open("/proc/self/environ", "rb") as handle:
        if b"LC_CTYPE=" not in handle.read():
            os.environ.pop("LC_CTYPE", None)  # Python's own addition (PEP 538)
    if argv and argv[0] in HOOKS:
        return HOOKS[argv[0]](os.environ["LXC_NAME"])
    if not argv or argv[0] not in COMMANDS:
        what = "unknown command 'pct %s'" % argv[0] if argv else "no command specified"
        sys.stderr.write("ERROR: %s\nUSAGE: pct <COMMAND> [ARGS] [OPTIONS]\n" % what)
        return 255
    if os.geteuid():
        raise Die("please run as root")
    if os.path.exists("/etc/pct-standin.delay"):  # real pct (Perl) takes some tenths of a second to start
        with open("/etc/pct-standin.delay") as handle:
            time.sleep(float(handle.read()))
    args, opts = getopt(argv[0], argv[1:])
    COMMANDS[argv[0]][0](args, opts)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sys.exit(main(sys.argv[1:]))
    except Die as failure:
        sys.stderr.write(failure.text.rstrip("\n") + "\n")
        sys.exit(failure.rc)
