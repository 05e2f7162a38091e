# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""SGLang in environments of its own: what a version needs, how one is built, proven, switched to and taken away."""
