# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What the collection knows of a host, as Prometheus metrics and as a probe with evidence."""
