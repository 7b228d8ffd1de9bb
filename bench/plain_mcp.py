"""The baseline of `holdfast mcp`: a stdio server of two tools, which appends what it is called with to a file."""

import json
import sys
from typing import Any


def answer(method: str, params: dict[str, Any], reports: str) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        names = ("submit_case", "submit_verdict")
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    with open(reports, "a", encoding="utf-8") as file:
        file.write(json.dumps(params) + "\n")
    return {"content": [{"type": "text", "text": "stored"}]}


for line in sys.stdin:
    frame = json.loads(line)
    if "id" in frame:
        result = answer(frame["method"], frame.get("params") or {}, sys.argv[1])
        print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": result}), flush=True)
