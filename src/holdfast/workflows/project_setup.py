"""The commands that set up a fresh checkout of a project, by the lock files in its top folder."""

from collections.abc import Collection

SetupCommand = tuple[str, ...]

_NODE_SETUP = (  # by lock file; the first that is there
    ("pnpm-lock.yaml", ("pnpm", "install", "--frozen-lockfile")),
    ("yarn.lock", ("yarn", "install", "--frozen-lockfile")),
    ("bun.lock", ("bun", "install", "--frozen-lockfile")),
    ("bun.lockb", ("bun", "install", "--frozen-lockfile")),
    ("package-lock.json", ("npm", "ci")),
    ("npm-shrinkwrap.json", ("npm", "ci")),
)
_PYTHON_SETUP: tuple[tuple[str, tuple[SetupCommand, ...]], ...] = (
    ("uv.lock", (("uv", "sync"),)),
    ("poetry.lock", (("poetry", "install"),)),
    ("pdm.lock", (("pdm", "sync"),)),
    (
        "requirements.txt",
        (
            ("python3", "-m", "venv", ".venv"),
            (".venv/bin/python", "-m", "pip", "install", "-r", "requirements.txt"),
        ),
    ),
)


def setup_commands(names: Collection[str]) -> tuple[SetupCommand, ...]:
    """The commands, in order; none for cargo, go and the like, which fetch what they need when they build."""
    node = next(((words,) for file, words in _NODE_SETUP if file in names), ())
    python = next((commands for file, commands in _PYTHON_SETUP if file in names), ())
    return (*node, *python)
