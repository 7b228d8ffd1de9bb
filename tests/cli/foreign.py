"""Logs as another tool writes them: the Resume Protocol's envelope, no chain."""

import json
import os
from pathlib import Path
from typing import Any

SEED_LOG = (Path(__file__).parents[1] / "golden" / "resume-protocol-interrupted.jsonl").read_bytes()
"""The example at the end of the Resume Protocol, as it stands there."""

SEED_RESUMED = b"""\
{"v":1,"ts":"2026-02-14T11:00:00.000Z","sid":"b5a4c3d2","seq":0,"type":"session.start","feature":"auth-system",\
"agent":null,"pane_id":null,"data":{"command":"resume","feature":"auth-system","branch":"feature/auth-system",\
"mode":"strict"}}
{"v":1,"ts":"2026-02-14T11:00:05.000Z","sid":"b5a4c3d2","seq":1,"type":"agent.spawned","feature":"auth-system",\
"agent":null,"pane_id":null,"data":{"name":"service-eng","role":"Standard Coding Agent","task":"2",\
"branch":"work/auth-system/api-service"}}
{"v":1,"ts":"2026-02-14T11:00:06.000Z","sid":"b5a4c3d2","seq":2,"type":"task.started","feature":"auth-system",\
"agent":"service-eng","pane_id":null,"data":{"taskId":"2","summary":"Build API","agent":"service-eng",\
"files":["src/api/service.ts"]}}
"""
"""The session that resumed it: the protocol's second example, appended to the same file."""


def event(kind: str, seq: int, data: Any = None, *, sid: str = "s1", **head: Any) -> bytes:
    """One line."""
    envelope = {"v": 1, "ts": f"2026-02-14T10:00:{seq % 60:02}.000Z", "sid": sid, "seq": seq, "type": kind}
    common = {"feature": "auth-system", "agent": None, "pane_id": None, "data": {} if data is None else data}
    return json.dumps({**envelope, **common, **head}, ensure_ascii=False).encode() + b"\n"


def started(seq: int = 0, *, sid: str = "s1", command: str = "implement", **head: Any) -> bytes:
    return event("session.start", seq, {"command": command, "feature": "auth-system"}, sid=sid, **head)


def checkpoint(seq: int, label: str = "wave-1-complete", *, sid: str = "s1", **data: Any) -> bytes:
    found = {"label": label, "branch": "feature/auth-system", "plan_step": "wave-2-start", "resumable": True}
    return event("checkpoint", seq, {**found, **data}, sid=sid)


def put(folder: str, *names: str, log: bytes) -> str:
    """Write a log at a path below a folder, and say where."""
    path = os.path.join(folder, *names)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_bytes(log)
    return path
