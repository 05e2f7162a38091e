# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""One SGLang server as a systemd unit: its text, its states, and what it answers over HTTP."""
