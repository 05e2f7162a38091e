# SPDX-License-Identifier: GPL-3.0-or-later
"""A replayer that stands where SGLang would be installed. It plays recorded starts; it runs no model."""

__version__ = "0.5.23+replay"
