# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""What ``_startup`` may want to know of the host beside the log; it is handed in there, and fetched here."""
