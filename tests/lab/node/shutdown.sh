#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A stand-in for shutdown(8) of the make-believe node: `shutdown -r 0 MESSAGE` asks its process 1 for a reboot and
# returns, as the real one does. It knows nothing else.
if [ "${1:-}" != -r ]; then
    echo "shutdown: the lab's node knows only -r" >&2
    exit 1
fi
echo "$(date -u +%FT%TZ) shutdown $*" >> /var/log/shutdown.log
kill -USR1 1
