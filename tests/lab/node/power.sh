#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The make-believe node's power supply: runs its process 1 (init.sh) in namespaces of its own, and once more where that
# ended with a reboot. While the file "unplugged" is there, the node stays off, as one that does not come back.
# Given: LAB and what init.sh wants. Runs in the node's control group namespace, which outlives a reboot.
set -u
spaces=(--mount --uts --net --pid --ipc --propagation private)
while :; do
    rm -f "$LAB/ready" "$LAB/reboot"
    unshare "${spaces[@]}" --fork --kill-child bash "$LAB/node/init.sh"
    [ -e "$LAB/reboot" ] || exit 0
    sleep 1 # off for a moment: whoever asks is refused
    while [ -e "$LAB/unplugged" ]; do sleep 0.2; done
done
