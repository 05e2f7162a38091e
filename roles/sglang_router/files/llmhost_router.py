# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts SGLang's router with the arguments and the key of a file, so that no key is in a command line.

Usage: llmhost_router.py CONFIG
"""

import json
import sys

from sglang_router.launch_router import launch_router, parse_router_args


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as handle:
        config = json.load(handle)
    words = []
    for name, value in config["arguments"].items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, list):
            words += [option, *map(str, value)] if value else []
        elif value is not False and value is not None:
            words += [option, str(value)]
    arguments = parse_router_args(words)
    arguments.api_key = config["api_key"] or None
    launch_router(arguments)


if __name__ == "__main__":
    main()
