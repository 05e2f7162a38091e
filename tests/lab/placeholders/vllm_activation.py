# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholder of the lab for vllm's layers: SGLang 0.5.6 asks for them where it has no kernel of its own. Its own
layers, which it has defined by then, compute the same in plain torch on such a CPU."""

from sglang.srt.layers.activation import GeluAndMul, SiluAndMul

__all__ = ["GeluAndMul", "SiluAndMul"]
