"""What an agent sends, as bytes: right as far as this goes, whatever is in it."""

import json


def update(session: object = "s", **fields: object) -> bytes:
    params = {"sessionId": session, "update": fields}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


def request(number: object, method: str, session: object = "s", **fields: object) -> bytes:
    params = {"sessionId": session, **fields}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
