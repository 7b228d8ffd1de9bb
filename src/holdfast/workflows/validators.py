"""The commands that check a project: those in the settings, and those that its files reveal."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.core.config.settings import Validators

CONFIG_FILES = (
    "pyproject.toml",
    "setup.cfg",
    "tox.ini",
    "mypy.ini",
    ".mypy.ini",
    "package.json",
    "Makefile",
    "makefile",
)

_NO_TESTS = {5: "no tests were found"}  # pytest's exit code
_PYTHON_TEST = re.compile(r"(?:(?:tests?/)?(?:test_[^/]*|[^/]*_test)|(?:tests/)?conftest)\.py")
_DEEPER_TEST = re.compile(
    r"tests?/[^/]+/(?:test_[^/]*|[^/]*_test)\.py"
)  # may be a test fixture that contains another project
_PYTHON_FILES = {"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}
_NPM_PLACEHOLDER = "no test specified"  # what `npm init` writes
_MAKE_TEST_TARGET = re.compile(r"^test[ \t]*:(?!=)", re.MULTILINE)
_COMMAND_BY_FILE = {  # by a file in the root
    "Cargo.toml": ("cargo", "test"),
    "go.mod": ("go", "test", "./..."),
    "mix.exs": ("mix", "test"),
    "deno.json": ("deno", "test"),
    "pom.xml": ("mvn", "-B", "-q", "test"),
}
_TEST_BY_LOCK_FILE = {
    "pnpm-lock.yaml": ("pnpm", "test"),
    "yarn.lock": ("yarn", "test"),
    "bun.lock": ("bun", "run", "test"),
    "bun.lockb": ("bun", "run", "test"),
}


class CheckCommand(NamedTuple):
    """A validator. `imports` are folders that come before installed packages on the Python path."""

    name: str
    words: tuple[str, ...]
    limit: float = 600.0  # seconds
    environment: Mapping[str, str] = {}
    imports: tuple[str, ...] = ()
    fine: Mapping[int, str] = {}  # exit codes that are not failures, and their meaning


class ProjectFacts(NamedTuple):
    """Facts about a tree: its file names (`tests/test_x.py`), the text of some files, and the installed programs."""

    names: frozenset[str]
    texts: Mapping[str, str]
    programs: frozenset[str]


def choose_commands(found: Sequence[CheckCommand], settings: Validators) -> tuple[CheckCommand, ...]:
    """The detected commands and the user's own, which replace detected ones of the same name."""
    commands = {command.name: command._replace(limit=settings.timeout) for command in found}
    for name, own in settings.commands.items():
        known = commands.get(name)
        limit = settings.timeout if own.timeout is None else own.timeout
        if (
            known is not None and known.words[0] == own.command[0]
        ):  # same program: keep its exit codes and import folders
            commands[name] = known._replace(words=own.command, limit=limit)
        else:
            commands[name] = CheckCommand(name, own.command, limit)
    return tuple(commands.values())


def detect_commands(facts: ProjectFacts) -> tuple[CheckCommand, ...]:
    """The commands for a project, fast ones first. `make test` only without other tests: it usually runs them."""
    checks = [*_ruff_commands(facts), *_mypy_commands(facts)]
    tests = [*_pytest_commands(facts), *_node_commands(facts), *_file_commands(facts)]
    commands = checks + (tests or _make_commands(facts))
    return tuple(command for command in commands if command.words[0] in facts.programs)


def relevant_programs() -> frozenset[str]:
    simple = {words[0] for words in (*_COMMAND_BY_FILE.values(), *_TEST_BY_LOCK_FILE.values())}
    return frozenset({"ruff", "mypy", "pytest", "npm", "make"} | simple)


def _ruff_commands(facts: ProjectFacts) -> list[CheckCommand]:
    uses_ruff = "ruff" in _pyproject_tools(facts) or facts.names & {"ruff.toml", ".ruff.toml"}
    return [CheckCommand("ruff", ("ruff", "check", "."))] if uses_ruff else []


def _mypy_commands(facts: ProjectFacts) -> list[CheckCommand]:
    sections = [_read_ini(facts, name).get("mypy") for name in ("mypy.ini", ".mypy.ini", "setup.cfg")]
    found = [section for section in (*sections, _pyproject_tools(facts).get("mypy")) if isinstance(section, dict)]
    if not found:
        return []
    says_which = any(key in found[0] for key in ("files", "packages", "modules"))
    return [CheckCommand("mypy", ("mypy",) if says_which else ("mypy", "."), imports=_import_folders(facts))]


def _pytest_commands(facts: ProjectFacts) -> list[CheckCommand]:
    uses_pytest = (
        "pytest" in _pyproject_tools(facts)
        or facts.names & {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"}
        or "tool:pytest" in _read_ini(facts, "setup.cfg")
        or "pytest" in _read_ini(facts, "tox.ini")
        or any(_PYTHON_TEST.fullmatch(name) for name in facts.names)
        or (facts.names & _PYTHON_FILES and any(_DEEPER_TEST.fullmatch(name) for name in facts.names))
    )
    return (
        [CheckCommand("pytest", ("pytest", "-q"), imports=_import_folders(facts), fine=_NO_TESTS)]
        if uses_pytest
        else []
    )


def _import_folders(facts: ProjectFacts) -> tuple[str, ...]:
    """The folders to import from. Without them, tests would import an installed copy, such as the user's checkout."""
    return ("src", ".") if "src" in facts.names else (".",)


def _node_commands(facts: ProjectFacts) -> list[CheckCommand]:
    package = _parse_json(facts.texts.get("package.json", ""))
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or _NPM_PLACEHOLDER in script:
        return []
    words = next((words for lock, words in _TEST_BY_LOCK_FILE.items() if lock in facts.names), ("npm", "test"))
    return [
        CheckCommand(f"{words[0]} test", words, environment={"CI": "true"})
    ]  # without it some runners keep watching files


def _file_commands(facts: ProjectFacts) -> list[CheckCommand]:
    return [CheckCommand(" ".join(words[:2]), words) for name, words in _COMMAND_BY_FILE.items() if name in facts.names]


def _make_commands(facts: ProjectFacts) -> list[CheckCommand]:
    text = facts.texts.get("Makefile") or facts.texts.get("makefile") or ""
    return [CheckCommand("make test", ("make", "test"))] if _MAKE_TEST_TARGET.search(text) else []


def _pyproject_tools(facts: ProjectFacts) -> dict[str, Any]:
    """The tables of tools in pyproject.toml; empty when it is invalid: the tools themselves report that."""
    import tomllib  # noqa: PLC0415 - slow to import, and many projects have no such file

    with suppress(tomllib.TOMLDecodeError, RecursionError):
        tools = tomllib.loads(facts.texts.get("pyproject.toml", "")).get("tool")
        return tools if isinstance(tools, dict) else {}
    return {}


def _read_ini(facts: ProjectFacts, name: str) -> dict[str, dict[str, str]]:
    if name not in facts.texts:
        return {}
    import configparser  # noqa: PLC0415 - slow to import; few projects have such files

    parser = configparser.RawConfigParser(strict=False)
    with suppress(configparser.Error):
        parser.read_string(facts.texts.get(name, ""))
        return {section: dict(parser[section]) for section in parser.sections()}
    return {}


def _parse_json(text: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
