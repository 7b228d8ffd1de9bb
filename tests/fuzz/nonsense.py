"""Garbage as programs make it, each kind once: of what an agent may send, most of it was sent by some agent."""

import json

_DEEP = b"[" * 5_000 + b"]" * 5_000


def update(session: str = "s", **fields: object) -> bytes:
    params = {"sessionId": session, "update": fields}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


def chunk(text: object) -> bytes:
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


LINES = [
    b"\n",
    b"hello, I am a log line\n",
    b"\xff\xfe\x00 not UTF-8\n",
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"x\x00"}}}\n',
    b"null\n",
    b"[]\n",
    b'"text"\n',
    b"1e999\n",
    b"{\n",
    b"{}\n",
    _DEEP + b"\n",
    b'{"jsonrpc":"2.0","id":0,"result":' + _DEEP + b"}\n",
    b'{"jsonrpc":"2.0","id":99,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":"zero","result":{}}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}\n',
    b'{"jsonrpc":"2.0","id":true,"error":"no"}\n',
    b'{"jsonrpc":"2.0","id":[],"method":"fs/read_text_file","params":{}}\n',
    b'{"jsonrpc":"2.0","id":{},"method":"terminal/create","params":[]}\n',
    b'{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"sessionId":"s","path":"a\\u0000b"}}\n',
    b'{"jsonrpc":"2.0","id":5,"method":"fs/write_text_file","params":{"sessionId":"s","path":1,"content":2}}\n',
    b'{"jsonrpc":"2.0","id":6,"method":"no/such","params":null}\n',
    b'{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{},"options":7}}\n',
    b'{"jsonrpc":"2.0","id":8,"method":"terminal/output","params":{"sessionId":"s","terminalId":"none"}}\n',
    b'{"jsonrpc":"2.0","id":9,"method":"terminal/create","params":{"sessionId":"s","command":"a\\u0000b"}}\n',
    b'{"jsonrpc":"2.0","method":7}\n',
    b'{"jsonrpc":"2.0","method":"session/update"}\n',
    b'{"jsonrpc":"2.0","method":"session/update","params":[]}\n',
    (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":'
        b'"agent_message_chunk","content":{"type":"text","text":"half \\ud800 of a character"}}}}\n'
    ),
    update("another", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "not yours"}),
    update(sessionUpdate=["a", "list"]),
    update(sessionUpdate="tool_call", toolCallId={"no": "name"}, title=["x"], kind=7, status=None, locations="here"),
    update(sessionUpdate="tool_call_update", toolCallId=None, status="completed", content={"a": 1}, rawOutput=10**400),
    update(sessionUpdate="plan", entries="all of it"),
    update(sessionUpdate="plan", entries=[{"content": 10**40}]),
    update(sessionUpdate="current_mode_update", currentModeId={"x": 1}),
    update(sessionUpdate="usage_update", used=10**40, cost={"amount": 10**400, "currency": "USD"}),
    update(sessionUpdate="usage_update", used=True, cost={"amount": "much", "currency": "USD"}),
    update(sessionUpdate="usage_update", used=-5, cost={"amount": -1e308, "currency": "USD"}),
    chunk(None),
    chunk(["a"]),
    chunk("x" * 2_000_000),
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","upd',  # and nothing after it
]
