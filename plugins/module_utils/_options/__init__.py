# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Launch arguments: the schema of an installed SGLang, the rules between options, and the rendered command."""
