# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m sglang.launch_server ARGS...`: plays the recording that LLMHOST_REPLAY names."""

import sys

if __name__ == "__main__":  # the children that multiprocessing spawns import this file, too
    from sglang.player import main

    main(sys.argv[1:])
