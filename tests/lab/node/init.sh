#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Process 1 of the make-believe node: mounts, network, then reaps until told to stop. Started by `lab up` inside
# new mount, uts, net, pid, ipc and cgroup namespaces, so nothing here reaches the machine, and all of it is gone
# when this process is.
# Given: LAB (state), LAB_CACHE, LAB_CGROUP (v2|hybrid), LAB_NET (198.51.100)
#
# It boots again after a reboot (power.sh): what is on its disks (LAB/upper, the containers' images) is as it was, what
# lives in memory (/run, processes, mounts, network) is new, the boot id is another one, and containers with `onboot`
# are started. Kernel and uptime are this machine's for ever.
set -eu
umask 022
read -r outside _ < /proc/self/stat # /proc is still the machine's: our number there
echo "$outside" > "$LAB/pid"
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys

# The cache may lie below a folder that is covered further down (/root, /var, ...): keep a way to it first.
mkdir -p "$LAB/cache"
mount --bind "$LAB_CACHE" "$LAB/cache"

# Control groups, rooted at the node's own group by the cgroup namespace.
if [ "$LAB_CGROUP" = v2 ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    # A v2 controller can be passed on only while no process sits in the top group. LXC takes the name init.scope
    # out of its paths, so containers are /lxc/VMID as on Proxmox.
    mkdir -p /sys/fs/cgroup/init.scope
    echo 1 > /sys/fs/cgroup/init.scope/cgroup.procs
else
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    while IFS=: read -r number controllers _; do
        case $number:$controllers in
            0:)       folder=unified                  type=cgroup2 options=rw ;;
            *:name=*) folder=${controllers#name=}     type=cgroup  options=none,$controllers ;;
            *)        folder=$controllers             type=cgroup  options=$controllers ;;
        esac
        mkdir -p "/sys/fs/cgroup/$folder"
        mount -t "$type" -o "$options" "$type" "/sys/fs/cgroup/$folder"
    done < /proc/self/cgroup
fi

# What a reboot has left of the containers' groups.
find /sys/fs/cgroup/ -mindepth 2 -depth -type d \( -path '*/lxc/*' -o -path '*/lxc.monitor/*' \) -exec rmdir {} + 2> /dev/null || true

# The machine's own files, copy-on-write: what a role changes on "the node" stays in $LAB/upper.
for folder in etc usr var opt srv home dev; do
    [ -d "/$folder" ] && [ ! -L "/$folder" ] || continue
    mkdir -p "$LAB/upper/$folder" "$LAB/work/$folder"
    chmod --reference="/$folder" "$LAB/upper/$folder"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$LAB/upper/$folder,workdir=$LAB/work/$folder" "/$folder"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
# Not the machine's /root: its .bashrc may be slow (bash reads it for every ssh command), and the rest is private.
mount -t tmpfs -o mode=700 tmpfs /root
cp -a /etc/skel/. /root/
mkdir -p /run/lock/lxc /run/sshd /run/lxc /etc/pve/nodes/pve1/lxc /etc/pve/nodes/pve1/qemu-server /var/lib/lxc /var/lib/pct-standin/images \
    /var/lib/pct-standin/templates /var/log/lxc /srv/wheelhouse /srv/llmhost
[ -e /var/run ] || ln -s /run /var/run
# As in Proxmox's cluster file system: the node's own folders by a shorter way.
ln -sfn nodes/pve1 /etc/pve/local
ln -sfn nodes/pve1/lxc /etc/pve/lxc
ln -sfn nodes/pve1/qemu-server /etc/pve/qemu-server
mount --bind "$LAB/lxc" /var/lib/lxc
mount --bind "$LAB/images" /var/lib/pct-standin/images
mount --bind "$LAB/cache/templates" /var/lib/pct-standin/templates
mount --bind "$LAB/cache/wheelhouse" /srv/wheelhouse
mount --bind "$LAB/cache/data" /srv/llmhost
# pct ships without a first line, for the checks of a collection allow none that fits: -I -S start in 10 ms, not 30
{ echo '#!/usr/bin/python3 -IS'; cat "$LAB/node/pct.py"; } > /usr/sbin/pct
chmod 755 /usr/sbin/pct
cp --remove-destination "$LAB/node/shutdown.sh" /usr/sbin/shutdown # there it is a link to systemctl
chmod 755 /usr/sbin/shutdown
# The kernel lets an unprivileged container have a /proc and a /sys of its own only while some whole one is to be seen.
mkdir -p /run/whole/proc /run/whole/sys
mount -t proc -o nosuid,nodev,noexec proc /run/whole/proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /run/whole/sys
cat /proc/sys/kernel/random/uuid > /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
echo root:100000:65536 > /etc/subuid
echo root:100000:65536 > /etc/subgid
hostname pve1
echo pve1 > /etc/hostname
printf '127.0.0.1 localhost\n%s.1 pve1.example.test pve1\n' "$LAB_NET" > /etc/hosts
ip link set lo up
ip link add vmbr0 type bridge
ip addr add "$LAB_NET.1/24" dev vmbr0
ip link set vmbr0 up

# The connections to the node are cut (not those that lead into a container), guests are shut down, the rest is killed.
reboot() {
    rm -f "$LAB/ready" # from here on the listener takes no connection
    for process in /proc/[0-9]*; do
        if [ "$(cat "$process/comm" 2> /dev/null)" = sshd ] && [ "$(readlink "$process/ns/pid")" = "$(readlink /proc/self/ns/pid)" ]; then
            kill -KILL "${process#/proc/}" 2> /dev/null || true
        fi
    done
    for vmid in $(pct list | awk '$2 == "running" { print $1 }'); do
        pct shutdown "$vmid" --timeout 30 --forceStop 1 < /dev/null || true
    done
    : > "$LAB/reboot"
    exit 0
}
trap 'exit 0' TERM INT
trap reboot USR1

# Whatever a test adds to the node's boot: modules that are loaded, units that run before guests start.
[ ! -x /etc/llmhost-sim/boot ] || /etc/llmhost-sim/boot || echo "init: /etc/llmhost-sim/boot failed"
: > "$LAB/ready"
for conf in /etc/pve/lxc/*.conf; do
    if sed '/^\[/q' "$conf" 2> /dev/null | grep -q '^onboot: 1'; then
        pct start "$(basename "$conf" .conf)" < /dev/null || true # it says why; the others start nevertheless
    fi
done
while :; do
    sleep 3600 &
    wait $! || true
done
