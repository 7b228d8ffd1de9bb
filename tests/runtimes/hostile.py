"""A user with a private key, and a confined agent that writes programs which go for it."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.agents.launch import Runtime
from holdfast.core.work.names import worktree_names
from tests.cli.program import Program
from tests.support.cli_stage import Event, Stage
from tests.support.projects import Project, write

CANARY = "canary-4f1d7c"


class Attack(NamedTuple):
    """A stage whose user has a key at home. `marker` is a file that must never be made."""

    stage: Stage
    runtime: Runtime
    user: str
    marker: str

    @classmethod
    def make(cls, folder: str, runtime: Runtime) -> "Attack":
        user, books = os.path.join(folder, "user"), os.path.join(folder, "books")
        write(user, {".ssh/id_ed25519": CANARY})
        os.makedirs(books)
        project = Project.make(folder)
        program = Program(os.path.join(folder, "home"), project.path)
        seen = (*runtime.readable, books, *([user] if runtime.kind == "sandbox" else []))
        runtime = Runtime(kind=runtime.kind, readable=seen, image=runtime.image, socket=runtime.socket)
        return cls(Stage(program, project, books), runtime, user, os.path.join(folder, "marker"))

    @property
    def theft(self) -> str:
        """A line of shell that shows the key, and tries to leave a trace outside. It says `confined` when it cannot."""
        key = os.path.join(self.user, ".ssh", "id_ed25519")
        return f"cat {key} 2>/dev/null; touch {self.marker} 2>/dev/null; test -e {key} || echo confined"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": self.user}

    def options(self, agent: str) -> list[str]:
        """Those of a run in which everybody is confined."""
        runtime = self.runtime
        chosen: dict[str, Any] = {"kind": runtime.kind, "image": runtime.image, "socket": runtime.socket}
        flags = [f"runtime.{name}={json.dumps(value)}" for name, value in chosen.items() if value is not None]
        flags.append(f"runtime.readable={json.dumps(runtime.readable)}")
        return ["--agent", agent, *(word for flag in flags for word in ("--set", flag))]

    def run(self, *turns: dict[str, Any], code: int = 0, options: tuple[str, ...] = ()) -> str:
        """A run of these turns to its end. Returns its id."""
        agent = self.stage.book(*turns)
        run = self.stage.run("do it", *self.options(agent), *options, code=code, env=self.environment)
        self.must_have_failed(run)
        return run

    def must_have_failed(self, run: str) -> None:
        """The key is nowhere in what was recorded, and nothing was written outside."""
        assert not os.path.exists(self.marker)
        files = [path for path in Path(self.stage.home_of(run)).rglob("*") if path.is_file() and not path.is_symlink()]
        assert [str(path) for path in files if CANARY.encode() in path.read_bytes()] == []
        assert CANARY not in json.dumps(self.stage.events(run))

    def checks(self, run: str) -> list[Event]:
        return self.stage.data(run, "validator.finished")

    def worktree(self, run: str) -> str:
        return os.path.join(self.stage.home_of(run), worktree_names(run, None).folder)
