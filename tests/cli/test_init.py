"""`holdfast init`: finds agents and checks, asks on a terminal, and never overwrites what is there."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program, failpoint_environment
from tests.cli.terminal import conversation
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.projects import Project


class Newcomer:
    """A user with a repository, a home, and the programs in one folder."""

    def __init__(self, holdfast: Program, project: Project, folder: Path) -> None:
        self.holdfast = holdfast.elsewhere(cwd=project.path)
        self.project = Path(project.path)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.home = folder / "user"
        self.home.mkdir()
        for name in ("git", "sh"):
            (self.bin / name).symlink_to(f"/usr/bin/{name}")

    @property
    def env(self) -> dict[str, str]:
        config = {"XDG_CONFIG_HOME": str(self.home / ".config"), "TERM": "dumb"}
        return {"PATH": str(self.bin), "HOME": str(self.home), **config}

    def install(self, name: str, script: str = "exit 0") -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def log_in(self, path: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        (self.home / path).touch()

    def init(self, *arguments: str, **how: Any) -> Any:
        env = {**self.env, **how.pop("env", {})}
        return self.holdfast("init", *arguments, env=env, **how)

    @property
    def config_file(self) -> Path:
        return self.home / ".config" / "holdfast" / "config.toml"

    @property
    def user_config(self) -> Any:
        return tomllib.loads(self.config_file.read_text())

    @property
    def project_config(self) -> Any:
        return tomllib.loads((self.project / ".holdfast.toml").read_text())

    def write_config(self, text: str) -> None:
        self.config_file.parent.mkdir(parents=True)
        self.config_file.write_text(text)


@pytest.fixture
def newcomer(holdfast: Program, project: Project, tmp_path: Path) -> Newcomer:
    return Newcomer(holdfast, project, tmp_path)


def test_logged_in_agent_and_the_checks_are_found_and_written(newcomer: Newcomer) -> None:
    for name in ("claude-agent-acp", "codex-acp", "make", "uv"):
        newcomer.install(name)
    newcomer.log_in(".codex/auth.json")
    (newcomer.project / "Makefile").write_text("test:\n")
    (newcomer.project / "uv.lock").touch()
    found = newcomer.init("--yes", "--json").object
    assert found["agent"] == "codex"
    assert [(check["name"], check["passed"]) for check in found["checks"]] == [("make test", True)]
    assert found["setup"] == [["uv", "sync"]]
    assert [file["written"] for file in found["files"]] == [True, True]
    assert newcomer.user_config == {"agent": "codex"}
    assert newcomer.project_config == {
        "worktree": {"setup": [["uv", "sync"]]},
        "validators": {"commands": {"make test": {"command": ["make", "test"]}}},
    }
    shown = newcomer.holdfast("config", "--json", env=newcomer.env).objects
    assert all(row["trusted"] for row in shown), "it trusts the file that it wrote"
    again = newcomer.init("--yes", "--json").object
    assert [file["written"] for file in again["files"]] == [False, False]


def test_setup_whose_program_is_missing_is_left_out(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp")
    (newcomer.project / "uv.lock").touch()
    outcome = newcomer.init("--yes")
    assert "left out of the setup, because uv is not installed: uv sync" in outcome.err
    assert not (newcomer.project / ".holdfast.toml").exists()


def test_check_that_fails_is_shown_with_its_first_lines(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp")
    newcomer.install("lint", "echo 'a.py:1 wrong'; exit 3")
    outcome = newcomer.init("--yes", "--check", "lint --all")
    assert "failed  lint --all" in outcome.err
    assert "a.py:1 wrong" in outcome.err
    assert "# It failed when" in (newcomer.project / ".holdfast.toml").read_text()
    own = {"lint --all": {"command": ["lint", "--all"]}}
    assert newcomer.project_config["validators"] == {"detect": False, "commands": own}
    assert outcome.out == 'next: holdfast run "what you want done"\n'


def test_existing_files_keep_their_other_lines(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp")
    newcomer.write_config("# mine\nparallel = 3\nagent = 'claude' # why not\n\n[caps]\niterations = 2\n")
    (newcomer.project / ".holdfast.toml").write_text("parallel = 1\n")
    newcomer.init("--yes", "--agent", "codex", "--check", "sh -c true")
    assert newcomer.config_file.read_text() == '# mine\nparallel = 3\nagent = "codex"\n\n[caps]\niterations = 2\n'
    assert newcomer.project_config == {"parallel": 1}


def test_config_that_is_a_link_stays_one(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp")
    newcomer.write_config("")
    real = newcomer.home / "dotfiles.toml"
    newcomer.config_file.rename(real)
    real.write_text("parallel = 3\n")
    newcomer.config_file.symlink_to(real)
    newcomer.init("--yes", "--agent", "codex", "--user-only")
    assert newcomer.config_file.is_symlink()
    assert tomllib.loads(real.read_text()) == {"agent": "codex", "parallel": 3}


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_while_it_changes_the_config(newcomer: Newcomer, side: str) -> None:
    newcomer.install("codex-acp")
    newcomer.write_config("parallel = 3\n")
    env = failpoint_environment(str(newcomer.home), f"config.edit.{side}:1")
    newcomer.init("--yes", "--user-only", env=env, code=KILLED)
    assert newcomer.user_config == ({"parallel": 3} if side == "before" else {"agent": "codex", "parallel": 3})
    newcomer.init("--yes", "--user-only")
    assert newcomer.user_config == {"agent": "codex", "parallel": 3}


def test_builtin_is_taken_when_only_a_key_is_there(newcomer: Newcomer) -> None:
    found = newcomer.init("--yes", "--json", "--user-only", env={"ANTHROPIC_API_KEY": "sk-1"}).object
    assert (found["agent"], found["model"]) == ("builtin", "anthropic:claude-sonnet-4-5")
    assert newcomer.user_config == {"agent": "builtin", "model": "anthropic:claude-sonnet-4-5"}


def test_agent_that_cannot_start_is_not_written(newcomer: Newcomer) -> None:
    complaint = newcomer.init("--yes", "--agent", "kimi", code=2).complaint
    assert complaint == "kimi is not installed; install it with: npm install -g @moonshot-ai/kimi-code"
    assert not newcomer.config_file.exists()
    assert not (newcomer.project / ".holdfast.toml").exists()


def test_nothing_installed_says_what_to_type(newcomer: Newcomer) -> None:
    assert "install one, such as: npm install -g" in newcomer.init("--yes", code=4).complaint


def test_without_a_terminal_it_asks_nothing(newcomer: Newcomer) -> None:
    assert "run: holdfast init --yes" in newcomer.init(code=2).complaint


def test_without_any_agent_it_offers_a_playbook(newcomer: Newcomer) -> None:
    told = newcomer.init("--yes", code=4).complaint
    assert "no agent was found here" in told
    assert "--agent playbook:FILE" in told


def test_outside_of_a_repository_only_the_agent_is_written(newcomer: Newcomer, tmp_path: Path) -> None:
    newcomer.install("codex-acp")
    outcome = newcomer.holdfast.elsewhere(cwd=str(tmp_path))("init", "--yes", env=newcomer.env)
    assert "not in a git repository" in outcome.err
    assert outcome.out == 'next: cd to a git repository, then holdfast run "what you want done"\n'
    assert newcomer.user_config == {"agent": "codex"}


def test_on_a_terminal_it_asks(newcomer: Newcomer) -> None:
    for name in ("claude-agent-acp", "codex-acp"):
        newcomer.install(name)
    newcomer.log_in(".claude/.credentials.json")
    with conversation(newcomer.holdfast, "init", "--check", "sh -c true", env=newcomer.env) as talk:
        shown = talk.until("Which one do you want? [1] ")
        assert "1  claude  login in ~/.claude/.credentials.json" in shown
        talk.type("7\n")
        assert "type a number from 1 to 2" in talk.until("[1] ")
        talk.type("2\n")
        talk.until("Run each of them once now (at most 120 s each)? [Y/n] ")
        talk.type("\n")
        talk.until("Write them into")
        talk.type("n\n")
        assert talk.end() == 0
    assert newcomer.user_config == {"agent": "codex"}
    assert not (newcomer.project / ".holdfast.toml").exists()


def test_existing_config_is_changed_only_after_a_yes(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp")
    newcomer.write_config('agent = "gemini"\n')
    for answer, kept in (("\n", "gemini"), ("y\n", "codex")):
        with conversation(newcomer.holdfast, "init", "--user-only", env=newcomer.env) as talk:
            talk.until("[1] ")
            talk.type("\n")
            talk.until("into it? [y/N] ")
            talk.type(answer)
            assert talk.end() == 0
        assert newcomer.user_config == {"agent": kept}


def test_first_run_on_a_terminal_asks_and_then_starts(newcomer: Newcomer) -> None:
    newcomer.install("codex-acp", "echo 'no such luck' >&2; exit 2")
    with conversation(newcomer.holdfast, "run", "say hello", env=newcomer.env) as talk:
        assert "There is no configuration yet." in talk.until("Which one do you want? [1] ")
        talk.type("\n")
        talk.until("codex failed to start (exit code 2): no such luck")
        assert talk.end() == 1
    assert newcomer.user_config == {"agent": "codex"}


def test_doctor_says_what_the_configured_agent_lacks(newcomer: Newcomer) -> None:
    newcomer.write_config('agent = "pi"\n[roles.evaluator]\nagent = "builtin"\n')
    told = newcomer.holdfast("doctor", "--json", env=newcomer.env, code=1).objects
    lines = {problem["subject"]: json.dumps(problem) for problem in told}
    assert "install it with: npm install -g pi-acp @earendil-works/pi-coding-agent" in lines["pi"]
    assert "set HOLDFAST_MODEL" in lines["builtin"]
