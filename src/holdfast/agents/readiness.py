"""Whether an agent can start here, found out before a run exists: its programs, Node.js, its login or key, its model.

A missing login is no reason to refuse: a keychain, a proxy or a local model needs no file and no variable. So what is
certain to fail is a problem; the rest is a fact to show.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.environment import plain_environment
from holdfast.agents.registry import MODEL_VARIABLE, AgentDefinition, environment_for, install_advice
from holdfast.leaf.errors import BadInput

_VERSION_TIMEOUT_S = 20.0
_SHEBANG_BYTES = 256
_FALLBACK = re.compile(r"\$\{(\w+):-([^}]*)\}")


class Login(NamedTuple):
    """How an agent can reach its model: by a variable with a key, or by a file that its login wrote."""

    kind: str  # key, file
    name: str

    def __str__(self) -> str:
        return f"key in {self.name}" if self.kind == "key" else f"login in {self.name}"


def find_login(entry: AgentDefinition) -> Login | None:
    """Return the first key or login file there is. None: an agent may still be logged in by other means."""
    given = environment_for(entry)
    for name in entry.secrets:
        if given.get(name):
            return Login("key", name)
    for text in entry.login_files:
        path = _expand(text)
        if os.path.exists(path):
            return Login("file", _from_home(path))
    return None


def _expand(text: str) -> str:
    """Replace `${NAME:-default}` and `~`."""
    return os.path.expanduser(_FALLBACK.sub(lambda match: os.environ.get(match[1]) or match[2], text))


def _from_home(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}{os.sep}") else path


def start_problem(entry: AgentDefinition, model: str | None = None, *, reads_playbook: bool = True) -> str | None:
    """Return why an agent cannot start on this machine, and the command that mends it; None when nothing is known.

    `model` is the one chosen for its role. Of an agent in a container, only its image knows.
    """
    if entry.runtime.kind == "container":
        return None
    if not entry.is_installed():
        return install_advice(entry)
    for program in entry.needs:
        if shutil.which(program) is None:
            return f"{entry.command[0]} needs {program}, which is not installed; install it with: {entry.install}"
    sandbox = sandbox_problem() if entry.runtime.kind == "sandbox" else None
    return sandbox or _node_problem(entry) or _own_agent_problem(entry, model, reads_playbook=reads_playbook)


def sandbox_problem() -> str | None:
    """Return why no agent can run in a sandbox here."""
    from holdfast.agents.runtimes.sandbox import check_bwrap  # noqa: PLC0415 - few agents are in one

    try:
        check_bwrap(shutil.which("bwrap"))
    except BadInput as error:
        return str(error)
    return None


def _node_problem(entry: AgentDefinition) -> str | None:
    """Compare the Node.js that would run the program with the lowest version that can."""
    program = shutil.which(entry.program)
    node = node_of(program) if entry.node and program is not None else None
    if node is None:
        return None
    wanted = ".".join(map(str, entry.node))
    if shutil.which(node) is None:
        return f"{entry.program} needs Node.js {wanted} or newer, and there is no {node} on PATH; install Node.js"
    version = node_version(node)
    if version is None or version >= entry.node:
        return None
    found = ".".join(map(str, version))
    advice = "update it with: npm install -g node@24"
    return f"{entry.program} needs Node.js {wanted} or newer, and {node} is {found}; {advice}"


def node_of(program: str) -> str | None:
    """Return the Node.js that runs a script, by its first line; None for any other program."""
    try:
        with open(program, "rb") as file:
            first = file.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return None
    words = first.removeprefix(b"#!").decode(errors="replace").split() if first.startswith(b"#!") else []
    if not words:
        return None
    if os.path.basename(words[0]) == "env":
        return "node" if "node" in words[1:] else None
    return words[0] if os.path.basename(words[0]) in ("node", "nodejs") else None


def node_version(node: str) -> tuple[int, ...] | None:
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [node, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_VERSION_TIMEOUT_S)
        match = re.match(r"v(\d+)\.(\d+)\.(\d+)", done.stdout.strip())
        return tuple(map(int, match.groups())) if match else None
    return None


def _own_agent_problem(entry: AgentDefinition, model: str | None, *, reads_playbook: bool) -> str | None:
    """The agents that come with Holdfast say here what they would say when they start."""
    try:
        if (arguments := _arguments_after(entry.command, "builtin")) is not None:
            check_builtin(entry, arguments, model)
        elif (arguments := _arguments_after(entry.command, "playbook")) and (
            reads_playbook or not os.path.isfile(arguments[0])
        ):
            from holdfast.agents.playbook.reader import read_playbook  # noqa: PLC0415 - most runs have another agent

            read_playbook(arguments[0])
    except BadInput as error:
        return str(error)
    return None


def _arguments_after(command: Sequence[str], own_agent: str) -> Sequence[str] | None:
    """Return the arguments of `holdfast agent NAME`; None for any other command."""
    for place in range(1, len(command) - 1):
        is_ours = os.path.basename(command[place - 1]) == "holdfast"
        if is_ours and tuple(command[place : place + 2]) == ("agent", own_agent):
            return command[place + 2 :]
    return None


def check_builtin(entry: AgentDefinition, arguments: Sequence[str], model: str | None = None) -> None:
    """Raise `BadInput` when the built-in agent has no library, no model or no key."""
    from holdfast.agents.builtin.models import KEY_VARIABLES, Endpoint  # noqa: PLC0415 - most runs have another agent

    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    for option in ("--model", "--base-url", "--key-env"):
        parser.add_argument(option)
    try:
        options, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        return  # it says so itself
    given = {**plain_environment(), **environment_for(entry)}
    name = options.model or model or given.get(MODEL_VARIABLE)
    if not name:
        raise BadInput(f"builtin: no model: give --model PROVIDER:NAME or set {MODEL_VARIABLE}")
    provider, _ = Endpoint.split_name(name)
    variables = (options.key_env,) if options.key_env else KEY_VARIABLES[provider]
    if options.base_url is None and not any(given.get(variable) for variable in variables):
        raise BadInput(f"builtin: no key for {name}: {_key_advice(variables, os.environ)}")
    if importlib.util.find_spec("pydantic_ai") is None:
        raise BadInput(f"builtin: the model library is not installed; install it with: {entry.install}")


def _key_advice(variables: Sequence[str], ours: Mapping[str, str]) -> str:
    withheld = next((name for name in variables if ours.get(name)), None)
    if withheld is not None:
        return f'{withheld} is not passed to it; put this into your config: [agents.builtin] secrets = ["{withheld}"]'
    return f"set {' or '.join(variables)}, or name an endpoint that needs none: --agent 'builtin --base-url URL'"
