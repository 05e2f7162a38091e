# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints, as JSON, what the parser of an SGLang says of its options. Runs in the interpreter that has the package.

python options_real_parser.py [FOLDER with sglang/ in it]
"""

import argparse
import json
import sys

NAMES = {"_StoreAction": "store", "_StoreTrueAction": "store_true", "_StoreFalseAction": "store_false"}


def plain(value):
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool, dict)) else repr(value)


def main():
    if len(sys.argv) > 1:
        sys.path.insert(0, sys.argv[1])
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    rows = []
    for action in parser._actions:
        if action.dest == "help":
            continue
        kind = type(action).__name__
        rows.append(
            {
                "spellings": list(action.option_strings),
                "dest": action.dest,
                "action": NAMES.get(kind, kind),
                "type": getattr(action.type, "__name__", None),
                "nargs": action.nargs,
                "choices": plain(list(action.choices)) if action.choices is not None else None,
                "default": plain(action.default),
                "const": plain(action.const),
                "required": action.required,
            }
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
