"""Sends an agent its first prompt and waits to be killed; without an agent it only starts.

python bench/plain_prompt.py [FOLDER AGENT…]
"""

import sys

from plain_client import ask  # type: ignore[import-not-found]  # a script: this folder is on its path

if len(sys.argv) > 1:
    folder, *command = sys.argv[1:]
    ask(command, folder, "Add a file", [])
