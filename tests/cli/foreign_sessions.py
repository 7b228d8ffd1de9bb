"""Sessions of other tools: real folders from the fixtures, and files in the formats of those that are not there."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures" / "adopt"
TILTH_ID = {
    name: json.loads((FIXTURES / "tilth" / name / "session" / "checkpoint.json").read_text())["session_id"]
    for name in ("e0", "e1")
}
_PERSON = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")


def git(folder: str | os.PathLike[str], *arguments: str) -> str:
    command = ["git", *_PERSON, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def tilth(folder: Path, name: str) -> tuple[Path, Path]:
    """A copy of the session folder, and a repository that has its branch."""
    session = folder / name / "session"
    shutil.copytree(FIXTURES / "tilth" / name / "session", session)
    repo = folder / f"{name}-repo"
    git(folder, "clone", "-q", "-b", "main", str(FIXTURES / "tilth" / name / "repo.bundle"), str(repo))
    branch = json.loads((session / "checkpoint.json").read_text())["branch"]
    git(repo, "branch", branch, f"origin/{branch}")
    git(repo, "remote", "remove", "origin")
    return session, repo


def seed_tilth(folder: Path, name: str) -> tuple[Path, Path]:
    """The same, as Tilth's first era wrote it: with a task list of its own, and without the folder of a feature."""
    session, repo = tilth(folder, name)
    checkpoint = json.loads((session / "checkpoint.json").read_text())
    old = {key: value for key, value in checkpoint.items() if key not in ("feature_dir", "usage", "archived")}
    (session / "checkpoint.json").write_text(json.dumps(old))
    statuses = json.loads((session / "task-status.json").read_text())
    (session / "task-status.json").unlink()
    tasks = [
        {
            "id": task,
            "title": f"Write {task}.txt",
            "description": f"A file {task}.txt.",
            "acceptance_criteria": [f"{task}.txt exists"],
            "status": statuses.get(task, "pending"),
        }
        for task in ("T-001", "T-002")
    ]
    (session / "prd.json").write_text(json.dumps(tasks))
    (session / "seed-meta.json").write_text(json.dumps({"tests": ["tests/test_T-001.py"]}))
    log = session / "events.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[0]["payload"] = {key: lines[0]["payload"][key] for key in ("source", "phase")}
    write_lines(log, *lines)
    return session, repo


def agentmux(folder: Path, name: str, **state: Any) -> tuple[Path, Path]:
    """A project with the session in it, and its uncommitted work on its branch."""
    repo = folder / f"{name}-project"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "README.md").write_text("a project\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "init")
    git(repo, "checkout", "-q", "-b", f"feature/{name}")
    (repo / "f1.txt").write_text("from AgentMux\n")
    session = repo / ".agentmux" / ".sessions" / name
    shutil.copytree(FIXTURES / "agentmux" / name, session)
    if state:
        file = session / "state.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **state}))
    return session, repo


def write_lines(path: Path, *items: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items))
    return path


def protocol_log(repo: Path, *more: tuple[str, dict[str, Any]]) -> Path:
    """The seed's example: task 1 merged at a checkpoint, task 2 in progress, and what is given after that."""
    tasks = [{"id": "1", "summary": "Design schema"}, {"id": "2", "summary": "Build API"}]
    waves = [{"wave": 1, "task_ids": ["1"]}, {"wave": 2, "task_ids": ["2"]}]
    started: list[tuple[str, dict[str, Any]]] = [
        ("session.start", {"command": "implement", "feature": "auth", "branch": "feature/auth", "mode": "strict"}),
        ("plan.created", {"tasks": tasks, "waves": waves, "dependencies": [{"task_id": "2", "blocked_by": "1"}]}),
        ("agent.spawned", {"name": "schema", "role": "Coder", "task": "1", "branch": "work/auth/schema"}),
        ("task.started", {"taskId": "1", "summary": "Design schema", "agent": "schema", "files": ["schema.txt"]}),
        ("task.completed", {"taskId": "1", "summary": "Design schema", "files_changed": ["schema.txt"]}),
        ("agent.completed", {"name": "schema", "result": "success"}),
        ("branch.merged", {"name": "work/auth/schema", "target": "feature/auth", "conflicts": False}),
    ]
    return protocol_events(repo, *started, *more)


def protocol_events(repo: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    lines = [
        {"v": 1, "ts": f"2026-02-14T10:00:{seq:02}.000Z", "sid": "f4e3d2c1", "seq": seq, "type": kind}
        | {"feature": "auth", "agent": None, "pane_id": None, "data": data}
        for seq, (kind, data) in enumerate(events)
    ]
    return write_lines(repo / ".claude" / "progress" / "auth" / "events.jsonl", *lines)


CHECKPOINT: tuple[str, dict[str, Any]] = (
    "checkpoint",
    {"label": "wave-1", "branch": "feature/auth", "plan_step": "wave-2", "resumable": True},
)
TASK_2: list[tuple[str, dict[str, Any]]] = [
    ("agent.spawned", {"name": "api", "role": "Coder", "task": "2", "branch": "work/auth/api"}),
    ("task.started", {"taskId": "2", "summary": "Build API", "agent": "api", "files": ["api.txt"]}),
]

CLAUDE_ID = "0f9c2d1e-aaaa-4bbb-8ccc-123456789012"
CODEX_ID = "01999999-aaaa-7bbb-8ccc-123456789012"


def claude_session(home: Path, repo: Path, *, finished: bool = False, fork: bool = False) -> Path:
    """A session that was killed in a tool call; or one whose last turn ended. With a fork, an older branch too."""
    common = {"sessionId": CLAUDE_ID, "cwd": str(repo), "gitBranch": "main", "version": "2.1.300"}

    def item(name: str, parent: str | None, kind: str, content: Any, second: int) -> dict[str, Any]:
        at = f"2026-03-01T10:00:{second:02}.000Z"
        message = {"role": kind, "content": content, "id": f"msg-{name}"}
        if kind == "assistant":
            message["usage"] = {"input_tokens": 100, "output_tokens": 10}
        return {"uuid": name, "parentUuid": parent, "type": kind, "message": message, "timestamp": at, **common}

    call = [{"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "notes.txt"}}]
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "written"}]
    second_call = [{"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "make"}}]
    lines: list[Any] = [
        {"type": "summary", "summary": "notes", "leafUuid": "a2"},
        item("u1", None, "user", "Write my notes about kelp", 1),
        item("a1", "u1", "assistant", call, 2),
        item("u2", "a1", "user", result, 3),
    ]
    if fork:
        lines += [item("x1", "u2", "assistant", [{"type": "text", "text": "the abandoned answer"}], 4)]
    lines.append(item("a2", "u2", "assistant", [{"type": "text", "text": "I wrote notes.txt."}], 5))
    if not finished:
        lines += [
            item("u3", "a2", "user", "Now build it", 6),
            item("a3", "u3", "assistant", second_call, 7),
        ]
    folder = "".join(char if char.isascii() and char.isalnum() else "-" for char in str(repo))
    return write_lines(home / ".claude" / "projects" / folder / f"{CLAUDE_ID}.jsonl", *lines)


def codex_session(home: Path, repo: Path, *, finished: bool = False) -> Path:
    def item(kind: str, payload: dict[str, Any], second: int) -> dict[str, Any]:
        return {"timestamp": f"2026-03-01T10:00:{second:02}.000Z", "type": kind, "payload": payload}

    def message(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    meta = {"session_id": CODEX_ID, "cwd": str(repo), "cli_version": "0.99.0", "git": {"branch": "main"}}
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_1"}
    usage = {"type": "token_count", "info": {"total_token_usage": {"input_tokens": 500, "output_tokens": 50}}}
    lines = [
        item("session_meta", meta, 0),
        item("response_item", message("developer", "instructions"), 1),
        item("response_item", message("user", "<environment_context>cwd</environment_context>"), 1),
        item("event_msg", {"type": "task_started"}, 2),
        item("response_item", message("user", "List my files"), 2),
        item("response_item", call, 3),
        item("response_item", {"type": "function_call_output", "call_id": "call_1", "output": "README.md"}, 4),
        item("event_msg", usage, 4),
    ]
    if finished:
        lines += [
            item("response_item", message("assistant", "There is a README."), 5),
            item("event_msg", {"type": "task_complete"}, 5),
        ]
    name = f"rollout-2026-03-01T10-00-00-{CODEX_ID}.jsonl"
    return write_lines(home / ".codex" / "sessions" / "2026" / "03" / "01" / name, *lines)


def kandev_session(home: Path) -> Path:
    lines = [
        {"type": "user_message", "content": "Explain the README", "timestamp": "2026-03-01T10:00:00Z"},
        {"type": "tool_call", "tool_name": "read", "content": "README.md"},
        {"type": "tool_result", "tool_name": "read", "content": "a project"},
        {"type": "agent_message", "content": "It is a project."},
    ]
    return write_lines(home / ".kandev" / "sessions" / "abc123.jsonl", *lines)


def fingerprint(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder with the time of its last change, to see that none changed."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
