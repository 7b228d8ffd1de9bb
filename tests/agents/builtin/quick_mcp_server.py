"""An MCP server that is up in milliseconds. Whatever tool is called adds a line to `noted.txt` in its folder.

After `leave` it ends, in `die` it ends without an answer, and in `wait` it gives none. Its pid is in `server.pid`.
"""

import json
import os
import signal
import sys
from typing import Any

_TOOLS = ("note", "leave", "die", "wait")


def _answer(method: str, params: Any) -> Any:
    match method:
        case "initialize":
            about = {"name": "quick", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in _TOOLS]}
        case "tools/call":
            with open("noted.txt", "a", encoding="utf-8") as file:
                file.write("noted\n")
            if params["name"] == "die":
                sys.exit()
            if params["name"] == "wait":
                signal.pause()
            return {"content": [{"type": "text", "text": "it is noted"}]}
    return {}


def main() -> None:
    with open("server.pid", "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": _answer(asked["method"], asked.get("params"))}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()
            if asked["method"] == "tools/call" and asked["params"]["name"] == "leave":
                return


main()
