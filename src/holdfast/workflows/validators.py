"""Which commands a project is checked by: those that are configured, else those that its own files speak of."""

import configparser
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.core.config.settings import Validators

READ = ("pyproject.toml", "setup.cfg", "tox.ini", "mypy.ini", ".mypy.ini", "package.json", "Makefile", "makefile")

_NO_TESTS = {5: "no tests were found"}  # pytest's own code for that
_PYTHON_TEST = re.compile(r"(?:(?:tests?/)?(?:test_[^/]*|[^/]*_test)|(?:tests/)?conftest)\.py")
_DEEPER_TEST = re.compile(
    r"tests?/[^/]+/(?:test_[^/]*|[^/]*_test)\.py"
)  # may be another project's, in a test of this one
_PYTHON = {"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}
_PLACEHOLDER = "no test specified"  # what `npm init` writes
_MAKE_TEST = re.compile(r"^test[ \t]*:(?!=)", re.MULTILINE)
_BY_FILE = {  # tools whose file at the root says all
    "Cargo.toml": ("cargo", "test"),
    "go.mod": ("go", "test", "./..."),
    "mix.exs": ("mix", "test"),
    "deno.json": ("deno", "test"),
    "pom.xml": ("mvn", "-B", "-q", "test"),
}
_BY_LOCK = {
    "pnpm-lock.yaml": ("pnpm", "test"),
    "yarn.lock": ("yarn", "test"),
    "bun.lock": ("bun", "run", "test"),
    "bun.lockb": ("bun", "run", "test"),
}


class Command(NamedTuple):
    """A validator. `imports` are folders whose Python modules come before any that are installed."""

    name: str
    words: tuple[str, ...]
    limit: float = 600.0  # seconds
    environment: Mapping[str, str] = {}
    imports: tuple[str, ...] = ()
    fine: Mapping[int, str] = {}  # exit codes that are no failure, and what they mean


class Facts(NamedTuple):
    """What is known of a tree: its names (`tests/test_x.py`), the text of some, and which programs are there."""

    names: frozenset[str]
    texts: Mapping[str, str]
    programs: frozenset[str]


def chosen(found: Sequence[Command], settings: Validators) -> tuple[Command, ...]:
    """Those that were found, and the user's own; one that is named as a found one stands in its place."""
    commands = {command.name: command._replace(limit=settings.timeout) for command in found}
    for name, own in settings.commands.items():
        known = commands.get(name)
        limit = settings.timeout if own.timeout is None else own.timeout
        if known is not None and known.words[0] == own.command[0]:  # the same program: what is known of it holds
            commands[name] = known._replace(words=own.command, limit=limit)
        else:
            commands[name] = Command(name, own.command, limit)
    return tuple(commands.values())


def detect(facts: Facts) -> tuple[Command, ...]:
    """Fast ones first. `make test` only where nothing else is a test: it mostly runs those."""
    checks = [*_ruff(facts), *_mypy(facts)]
    tests = [*_pytest(facts), *_node(facts), *_simple(facts)]
    wanted = checks + (tests or _make(facts))
    return tuple(command for command in wanted if command.words[0] in facts.programs)


def programs_of_interest() -> frozenset[str]:
    simple = {words[0] for words in (*_BY_FILE.values(), *_BY_LOCK.values())}
    return frozenset({"ruff", "mypy", "pytest", "npm", "make"} | simple)


def _ruff(facts: Facts) -> list[Command]:
    wanted = "ruff" in _tools(facts) or facts.names & {"ruff.toml", ".ruff.toml"}
    return [Command("ruff", ("ruff", "check", "."))] if wanted else []


def _mypy(facts: Facts) -> list[Command]:
    sections = [_ini(facts, name).get("mypy") for name in ("mypy.ini", ".mypy.ini", "setup.cfg")]
    found = [section for section in (*sections, _tools(facts).get("mypy")) if isinstance(section, dict)]
    if not found:
        return []
    says_which = any(key in found[0] for key in ("files", "packages", "modules"))
    return [Command("mypy", ("mypy",) if says_which else ("mypy", "."), imports=_imports(facts))]


def _pytest(facts: Facts) -> list[Command]:
    wanted = (
        "pytest" in _tools(facts)
        or facts.names & {"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"}
        or "tool:pytest" in _ini(facts, "setup.cfg")
        or "pytest" in _ini(facts, "tox.ini")
        or any(_PYTHON_TEST.fullmatch(name) for name in facts.names)
        or (facts.names & _PYTHON and any(_DEEPER_TEST.fullmatch(name) for name in facts.names))
    )
    return [Command("pytest", ("pytest", "-q"), imports=_imports(facts), fine=_NO_TESTS)] if wanted else []


def _imports(facts: Facts) -> tuple[str, ...]:
    """Without them an installed copy of the project, such as the user's own checkout, would be what is tested."""
    return ("src", ".") if "src" in facts.names else (".",)


def _node(facts: Facts) -> list[Command]:
    package = _json(facts.texts.get("package.json", ""))
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or _PLACEHOLDER in script:
        return []
    words = next((words for lock, words in _BY_LOCK.items() if lock in facts.names), ("npm", "test"))
    return [Command(f"{words[0]} test", words, environment={"CI": "true"})]  # or some stay, and watch the files


def _simple(facts: Facts) -> list[Command]:
    return [Command(" ".join(words[:2]), words) for name, words in _BY_FILE.items() if name in facts.names]


def _make(facts: Facts) -> list[Command]:
    text = facts.texts.get("Makefile") or facts.texts.get("makefile") or ""
    return [Command("make test", ("make", "test"))] if _MAKE_TEST.search(text) else []


def _tools(facts: Facts) -> dict[str, Any]:
    """The tables of tools in pyproject.toml; none when it cannot be read: that is for others to complain of."""
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        tools = tomllib.loads(facts.texts.get("pyproject.toml", "")).get("tool")
        return tools if isinstance(tools, dict) else {}
    return {}


def _ini(facts: Facts, name: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    with suppress(configparser.Error):
        parser.read_string(facts.texts.get(name, ""))
        return {section: dict(parser[section]) for section in parser.sections()}
    return {}


def _json(text: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
