"""The baseline of a solo run: an agent asked once over `json`, between the git commands of a task. Nothing is recorded.

python bench/plain_client.py REPOSITORY TREES COUNT AGENT…
"""

import json
import os
import subprocess
import sys
from typing import Any


def git(folder: str, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, stdout=subprocess.DEVNULL)


def ask(command: list[str], cwd: str, prompt: str, mcp_servers: list[dict[str, Any]]) -> None:
    """Start an agent, send one prompt, and return when its turn is over."""
    with subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        requests: tuple[tuple[str, dict[str, Any]], ...] = (
            ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
            ("session/new", {"cwd": cwd, "mcpServers": mcp_servers}),
            ("session/prompt", {"prompt": [{"type": "text", "text": prompt}]}),
        )
        session: dict[str, Any] = {}
        for number, (method, params) in enumerate(requests):
            frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params | session}
            agent.stdin.write(json.dumps(frame).encode() + b"\n")
            agent.stdin.flush()
            answers = (json.loads(line) for line in agent.stdout)
            result = next(answer["result"] for answer in answers if answer.get("id") == number)
            session = {"sessionId": result["sessionId"]} if method == "session/new" else session


def begin(repository: str, tree: str) -> None:
    git(repository, "worktree", "add", "--quiet", "-b", os.path.basename(tree), tree)


def finish(repository: str, tree: str) -> None:
    branch = os.path.basename(tree)
    git(tree, "status", "--porcelain")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", branch)
    git(repository, "merge", "--quiet", "--no-ff", "--no-edit", branch)
    git(repository, "worktree", "remove", tree)
    git(repository, "branch", "--quiet", "-d", branch)


def main(repository: str, trees: str, count: str, *command: str) -> None:
    for number in range(int(count)):
        tree = os.path.join(trees, f"plain-{os.getpid()}-{number}")
        begin(repository, tree)
        ask(list(command), tree, "Add a file", [])
        finish(repository, tree)


if __name__ == "__main__":
    main(*sys.argv[1:])
