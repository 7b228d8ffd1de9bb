"""An MCP server that is up in milliseconds. Its tool `note` adds a line to the file `noted.txt` in its folder."""

import json
import sys
from typing import Any


def _answer(method: str, params: Any) -> Any:
    match method:
        case "initialize":
            about = {"name": "quick", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": "note", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            with open("noted.txt", "a", encoding="utf-8") as file:
                file.write("noted\n")
            return {"content": [{"type": "text", "text": "it is noted"}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": _answer(asked["method"], asked.get("params"))}
            sys.stdout.write(f"{json.dumps(answer)}\n")
            sys.stdout.flush()


main()
