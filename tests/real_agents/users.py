"""A user of Holdfast with a repository, and a real agent in the config."""

import json
import os
from pathlib import Path

from tests.cli.foreign_sessions import git
from tests.real_agents.setups import SETUPS
from tests.support.model_server.server import ModelServer


def make_user(agent: str, model: ModelServer, folder: Path) -> dict[str, str]:
    """Make the repository `project` in a folder, and the config. Returns the environment of the user's programs."""
    home, repo = folder / "agent-home", folder / "project"
    home.mkdir()
    entry = SETUPS[agent].entry(agent, str(home), model.address)
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "README.md").write_text("a project\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "init")
    git(repo, "config", "user.name", "A Person")
    git(repo, "config", "user.email", "person@example.org")
    config = Path(entry.environment["XDG_CONFIG_HOME"], "holdfast", "config.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    variables = "".join(f"{name} = {json.dumps(value)}\n" for name, value in entry.environment.items())
    config.write_text(
        f"[agents.{agent}]\ncommand = {json.dumps(list(entry.command))}\n"
        f"[agents.{agent}.environment]\nIS_SANDBOX = '1'\n{variables}"
    )
    return {**os.environ, **entry.environment, "IS_SANDBOX": "1", "HOLDFAST_HOME": str(folder / "holdfast")}
