"""An agent that speaks ACP as well as it can, and says in between whatever stands in a file.

python babbler.py WHEN FILE      WHEN: before greeting, session or turn; or instead of the answer to one of them
"""

import json
import sys

WHEN = ("before initialize", "before session/new", "before session/prompt")
INSTEAD = ("instead initialize", "instead session/new", "instead session/prompt")
_ANSWERS = {
    "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
    "session/new": {"sessionId": "s"},
    "session/prompt": {"stopReason": "end_turn"},
}


def main(when: str, file: str) -> None:
    how, method = when.split()
    with open(file, "rb") as garbage:
        said = garbage.read()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if asked.get("method") == method:
            sys.stdout.buffer.write(said)
        if "method" in asked and "id" in asked and not (how == "instead" and asked["method"] == method):
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": _ANSWERS.get(asked["method"], {})}
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        if how == "instead" and asked.get("method") == method:
            return  # and hangs up


if __name__ == "__main__":
    main(*sys.argv[1:])
