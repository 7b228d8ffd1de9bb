"""Setup commands by the lock files of a project."""

import pytest

from holdfast.engine.queries.setup.project import detect_setup
from holdfast.workflows.project_setup import setup_commands

VENV = ("python3", "-m", "venv", ".venv")


@pytest.mark.parametrize(
    ("names", "commands"),
    [
        ({"package.json", "package-lock.json"}, [("npm", "ci")]),
        ({"pnpm-lock.yaml", "package-lock.json"}, [("pnpm", "install", "--frozen-lockfile")]),
        ({"yarn.lock"}, [("yarn", "install", "--frozen-lockfile")]),
        ({"uv.lock", "requirements.txt"}, [("uv", "sync")]),
        ({"poetry.lock"}, [("poetry", "install")]),
        ({"requirements.txt"}, [VENV, (".venv/bin/python", "-m", "pip", "install", "-r", "requirements.txt")]),
        ({"package-lock.json", "uv.lock"}, [("npm", "ci"), ("uv", "sync")]),
        ({"Cargo.toml", "Cargo.lock", "go.mod", "package.json"}, []),
    ],
)
def test_lock_file_chooses_the_command(names: set[str], commands: list[tuple[str, ...]]) -> None:
    assert list(setup_commands(names)) == commands


def test_folder_that_is_not_there_needs_none() -> None:
    assert detect_setup("/no/such/folder") == []
