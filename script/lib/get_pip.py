# SPDX-License-Identifier: GPL-3.0-or-later
"""What ansible-test runs in place of the get-pip.py that it would download: uv puts the wanted pip in.

script/lib/stages.sh fills in the two words in capitals: ansible-test hands no environment down.
"""

import os
import subprocess
import sys

UV = "@UV@"
INDEX = "@INDEX@"

packages = [word for word in sys.argv[1:] if not word.startswith("-")]
index = ["--default-index", INDEX] if INDEX else []
command = [UV, "pip", "install", "-q", "--system-certs", *index, "-p", sys.executable, *packages]
sys.exit(subprocess.call(command, env={**os.environ, "UV_LINK_MODE": "copy"}))
