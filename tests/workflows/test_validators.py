"""Facts of finding validators: only what a project's own files speak of, and whose program is there."""

import json

import pytest

from holdfast.core.config.settings import Validator, Validators
from holdfast.workflows.validators import (
    CheckCommand,
    ProjectFacts,
    choose_commands,
    detect_commands,
    relevant_programs,
)

_ALL = relevant_programs()


def found(*names: str, programs: frozenset[str] = _ALL, **texts: str) -> list[str]:
    files = {"pyproject": "pyproject.toml", "package": "package.json", "setup": "setup.cfg"}
    written = {files.get(name, name): text for name, text in texts.items()}
    facts = ProjectFacts(frozenset(names) | frozenset(written), written, programs)
    return [" ".join(command.words) for command in detect_commands(facts)]


def package(test: object) -> str:
    return json.dumps({"scripts": {"test": test}})


@pytest.mark.parametrize(
    ("said", "commands"),
    [
        ("", []),
        ("[tool.ruff]", ["ruff check ."]),
        ("[tool.ruff.lint]\nselect=['ALL']", ["ruff check ."]),
        ("[tool.mypy]\nstrict=true", ["mypy ."]),
        ("[tool.mypy]\nfiles=['src']", ["mypy"]),
        ("[tool.pytest.ini_options]\naddopts=''", ["pytest -q"]),
        ("[tool.ruff]\n[tool.mypy]\n[tool.pytest]", ["ruff check .", "mypy .", "pytest -q"]),
        ("[tool]\nx=1", []),
        ("tool=3", []),
        ("[tool.ruff", []),
        ("a=" + "[" * 100_000, []),
    ],
)
def test_pyproject_says_which_tools_are_used(said: str, commands: list[str]) -> None:
    assert found(pyproject=said) == commands


def test_so_do_their_own_files() -> None:
    assert found("ruff.toml", "mypy.ini", "pytest.ini") == ["ruff check .", "pytest -q"]
    assert found(setup="[mypy]\nfiles = src\n[tool:pytest]\n") == ["mypy", "pytest -q"]
    assert found(setup="[mypy\n% ( garbage") == []


@pytest.mark.parametrize(
    "name", ["tests/test_x.py", "test_x.py", "tests/x_test.py", "tests/conftest.py", "conftest.py"]
)
def test_tests_in_python_are_run_by_pytest(name: str) -> None:
    assert found(name) == ["pytest -q"]


@pytest.mark.parametrize("name", ["tests/x.py", "latest.py", "test_x.txt", "tests/deep/test_x.py"])
def test_other_files_are_no_tests(name: str) -> None:
    assert found(name) == []


def test_deeper_tests_count_in_a_project_of_python() -> None:
    assert found("tests/unit/test_x.py", "setup.py") == ["pytest -q"]
    assert found("tests/unit/far/test_x.py", "setup.py") == []


def test_a_test_script_of_node_counts_when_it_is_a_real_one() -> None:
    assert found(package=package("vitest run")) == ["npm test"]
    for nothing in ("", " ", 'echo "Error: no test specified" && exit 1', None, 3):
        assert found(package=package(nothing)) == []
    for broken in ("{", "[]", '{"scripts": []}', "[" * 100_000):
        assert found(package=broken) == []


def test_the_lock_file_says_who_runs_it() -> None:
    assert found("pnpm-lock.yaml", package=package("x")) == ["pnpm test"]
    assert found("yarn.lock", package=package("x")) == ["yarn test"]
    assert found("bun.lock", package=package("x")) == ["bun run test"]


def test_other_languages_are_known_by_their_file() -> None:
    assert found("Cargo.toml", "go.mod") == ["cargo test", "go test ./..."]


def test_make_test_is_for_projects_without_any_other_test() -> None:
    makefile = "all:\n\ntest: build\n\tprove\n"
    assert found(Makefile=makefile) == ["make test"]
    assert found("go.mod", Makefile=makefile) == ["go test ./..."]
    assert found("ruff.toml", Makefile=makefile) == ["ruff check .", "make test"]
    assert found(Makefile="test := 1\ntests:\n") == []


def test_a_program_that_is_not_there_is_not_asked() -> None:
    assert found("ruff.toml", "go.mod", programs=frozenset({"go"})) == ["go test ./..."]


def test_the_projects_own_modules_come_before_installed_ones() -> None:
    (command,) = detect_commands(ProjectFacts(frozenset({"src", "pytest.ini"}), {}, _ALL))
    assert command.imports == ("src", ".")


def test_the_users_own_come_after_those_that_are_found_or_in_their_place() -> None:
    settings = Validators(
        timeout=5,
        commands={
            "lint": Validator(command=("make", "lint"), timeout=1),
            "pytest": Validator(command=("pytest", "-x")),
            "ruff": Validator(command=("true",)),
        },
    )
    ruff, pytest, lint = choose_commands(
        detect_commands(ProjectFacts(frozenset({"ruff.toml", "pytest.ini"}), {}, _ALL)), settings
    )
    assert ruff == CheckCommand("ruff", ("true",), 5)
    assert (pytest.words, pytest.limit, pytest.imports) == (("pytest", "-x"), 5, (".",))
    assert pytest.fine
    assert lint == CheckCommand("lint", ("make", "lint"), 1)
