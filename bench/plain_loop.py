"""The baseline of `loop`: a worker and an evaluator for each task, which report to a plain MCP server.

python bench/plain_loop.py REPOSITORY TREES COUNT AGENT…
"""

import json
import os
import sys

from plain_client import ask, begin, finish  # type: ignore[import-not-found]  # a script: this folder is on its path

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plain_mcp.py")


def main(repository: str, trees: str, count: str, *command: str) -> None:
    for number in range(int(count)):
        tree = os.path.join(trees, f"loop-{os.getpid()}-{number}")
        reports = f"{tree}.reports"
        server = {"name": "plain", "command": sys.executable, "args": [SERVER, reports], "env": []}
        begin(repository, tree)
        ask(list(command), tree, "You are the worker", [server])
        ask(list(command), tree, "You are the evaluator", [server])
        with open(reports, encoding="utf-8") as file:
            assert [json.loads(line)["name"] for line in file] == ["submit_case", "submit_verdict"]
        finish(repository, tree)


if __name__ == "__main__":
    main(*sys.argv[1:])
