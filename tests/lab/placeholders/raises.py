# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholder of the lab for a module of which no CPU build is published.

SGLang's CPU branch imports some names from it. Every name exists here; calling one raises, so that nothing can be
computed wrongly: a server that would need a kernel fails and says which one.
"""

__version__ = "0.0.0+placeholder"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*dummy, **dummies):
        raise NotImplementedError(f"the lab's placeholder for {__name__} has no {name}")

    missing.__name__ = name
    return missing
