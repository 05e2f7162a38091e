# SPDX-License-Identifier: GPL-3.0-or-later
"""As in the real package."""

from sglang import __version__

__all__ = ["__version__"]
