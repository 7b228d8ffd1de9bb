"""`holdfast config`: each value and where it came from; one clear line for whatever is wrong in a file."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from holdfast.core.config.settings import Settings
from holdfast.core.config.settings_docs import example_file, settings_schema
from scripts import configuration
from tests.cli.program import Program
from tests.support.projects import Project


@pytest.fixture
def user(holdfast: Program) -> Path:
    file = Path(holdfast.environment()["XDG_CONFIG_HOME"]) / "holdfast" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def theirs(project: Project) -> Path:
    return Path(os.path.realpath(project.path)) / ".holdfast.toml"


def row(lines: list[str], key: str) -> list[str]:
    (found,) = [line.split() for line in lines if line.split()[0] == key]
    return found[1:]


def test_each_value_comes_with_where_it_came_from(holdfast: Program, user: Path, theirs: Path) -> None:
    user.write_text('\n[caps]\nwall_clock = "90m"\n')
    theirs.write_text("parallel = 1\n")
    lines = holdfast("config", "--repo", str(theirs.parent)).lines
    assert row(lines, "caps.wall_clock") == ['"1h30m"', f"{user}:3"]
    assert row(lines, "parallel") == ["1", f"{theirs}:1"]
    assert row(lines, "agent") == ['"claude"', "built-in"]
    assert row(lines, "caps.tokens") == ["-", "built-in"]


def test_json_has_the_same_as_data(holdfast: Program, user: Path) -> None:
    user.write_text('caps.wall_clock = "90m"')
    found = {one["key"]: one for one in holdfast("config", "--json").objects}
    assert found["caps.wall_clock"] == {
        "key": "caps.wall_clock",
        "value": 5400.0,
        "trusted": True,
        "layer": "user",
        "file": str(user),
        "line": 1,
    }
    assert found["agent"]["layer"] == "built-in"
    assert found["agent"]["file"] is None


def test_one_key_or_one_table_can_be_asked_for(holdfast: Program) -> None:
    assert holdfast("config", "caps.iterations").lines == ["caps.iterations  8  built-in"]
    assert [line.split(".")[0] for line in holdfast("config", "memory").lines] == ["memory", "memory"]
    complaint = holdfast("config", "caps.iteration", code=2).complaint
    assert complaint == "unknown setting 'caps.iteration'; did you mean caps.iterations?"
    assert holdfast("config", "cap", code=2).complaint.startswith("unknown setting 'cap'; ")
    complaint = holdfast("config", "zzz", code=2).complaint
    assert complaint == "unknown setting 'zzz'; holdfast config lists all; holdfast config path names the files"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n[caps]\niteratons = 2\n", ":3: caps.iteratons: there is no such key; did you mean iterations?"),
        ("\n\nparallel = 'x'\n", ":3: parallel: expected a whole number, got text"),
        ("a = 1\na = 2\n", ":2: not TOML: cannot overwrite a value"),
        ("\nx = 'open\n", ":2: not TOML: "),
        ("agent = 'x'\n\nb =\n\n\n", ":3: not TOML: invalid value"),
        ("agent = ", ":1: not TOML: invalid value"),
        ("x = " + "[" * 20_000, ":1: nested too deeply"),
        ("agent = '''\nparallel = 0\n'''\nparallel = 0\n", ":4: parallel: expected a whole number >= 1"),
        ("agent = 'x'\r\n\r\nparallel = 0\r\n", ":3: parallel: "),
    ],
)
def test_what_is_wrong_is_one_line_with_its_line(holdfast: Program, user: Path, text: str, said: str) -> None:
    user.write_bytes(text.encode())
    complaint = holdfast("config", code=2).complaint
    assert complaint.startswith(f"{user}{said}")


def test_nothing_starts_with_a_config_that_is_wrong(holdfast: Program, user: Path) -> None:
    user.write_text("paralel = 1")
    assert holdfast("agents", "ls", code=2).complaint == holdfast("config", code=2).complaint


def test_a_file_that_cannot_be_read_is_one_line(holdfast: Program, user: Path) -> None:
    user.write_bytes(b"agent = 'x'\n# \xff\n")
    assert holdfast("config", code=2).complaint == f"{user}:2: not UTF-8; a config is TOML in UTF-8"
    user.chmod(0)
    assert holdfast("config", code=2, unprivileged=True).complaint.startswith(f"{user}: Permission denied; ")
    user.unlink()
    user.mkdir()
    assert holdfast("config", code=2).complaint.startswith(f"{user}: Is a directory; ")


def test_a_file_that_was_asked_for_must_be_there(holdfast: Program) -> None:
    there = {"HOLDFAST_CONFIG": "mine.toml"}
    file = os.path.join(os.path.realpath(holdfast.cwd), "mine.toml")
    complaint = holdfast("config", code=2, env=there).complaint
    assert complaint == f"HOLDFAST_CONFIG: there is no file {file}; `holdfast config init` writes one"
    assert holdfast("config", "init", env=there).out == f"{file}\n"
    holdfast("config", env=there)
    holdfast("config", env={"HOLDFAST_CONFIG": os.devnull})


# --- trust --------------------------------------------------------------------------------------------


def test_a_repository_is_not_trusted_before_the_user_says_so(holdfast: Program, theirs: Path) -> None:
    theirs.write_text('parallel = 1\nhooks.notify = ["touch evil"]\n')
    repo = ("--repo", str(theirs.parent))
    before = holdfast("config", *repo)
    assert row([line for line in before.lines if "trusted" not in line], "hooks.notify") == ["[]", "built-in"]
    (ignored,) = [line for line in before.lines if line.endswith(f"  {theirs}:2  not trusted")]
    assert ignored.startswith("hooks.notify ")
    warning = f"{theirs}: ignored until you trust this file: hooks.notify; read it, then: holdfast config trust\n"
    assert before.err == warning
    assert holdfast("agents", "ls", cwd=str(theirs.parent)).err == warning
    assert [one["trusted"] for one in holdfast("config", "hooks.notify", "--json", *repo).objects] == [True, False]

    trusted = holdfast("config", "trust", *repo)
    assert trusted.out == 'hooks.notify  [["touch", "evil"]]\n'
    after = holdfast("config", *repo)
    assert (row(after.lines, "hooks.notify")[-1], after.err) == (f"{theirs}:2", "")
    assert not (theirs.parent / "evil").exists(), "to trust is not to run"

    theirs.write_text('hooks.notify = ["touch worse"]\n')
    assert "not trusted" in holdfast("config", *repo).out


def test_trust_in_json(holdfast: Program, theirs: Path) -> None:
    theirs.write_text('permissions.policy = "allow-all"\n')
    found = holdfast("config", "trust", "--json", "--repo", str(theirs.parent)).object
    assert found == {"file": str(theirs), "trusted": {"permissions.policy": "allow-all"}}


def test_where_there_is_nothing_to_trust_nothing_is_done(holdfast: Program, theirs: Path) -> None:
    complaint = holdfast("config", "trust", "--repo", str(theirs.parent), code=4).complaint
    assert complaint == f"nothing to trust: there is no {theirs}"


def test_a_wrong_file_cannot_be_trusted(holdfast: Program, theirs: Path) -> None:
    theirs.write_text("hooks.x = 1")
    assert holdfast("config", "trust", "--repo", str(theirs.parent), code=2).complaint.startswith(
        f"{theirs}:1: hooks.x: "
    )
    assert not os.path.exists(os.path.join(holdfast.home, "trusted"))


# --- the other actions --------------------------------------------------------------------------------


def test_path_tells_which_files_are_looked_at(holdfast: Program, user: Path, theirs: Path) -> None:
    repo = ("--repo", str(theirs.parent))
    assert holdfast("config", "path", *repo).lines == [
        f"user     {user}  does not exist",
        f"project  {theirs}  does not exist",
    ]
    theirs.write_text("neither need be good")
    user.write_text("nor this")
    assert holdfast("config", "path", *repo).lines == [f"user     {user}", f"project  {theirs}  not trusted"]
    assert holdfast("config", "path", "--json", *repo).objects == [
        {"layer": "user", "file": str(user), "exists": True, "trusted": True},
        {"layer": "project", "file": str(theirs), "exists": True, "trusted": False},
    ]


def test_settings_are_shown_also_in_a_folder_that_was_removed(holdfast: Program, user: Path) -> None:
    user.write_text("parallel = 7")
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -P -m holdfast config parallel --json'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable],
        cwd=holdfast.cwd,
        env=holdfast.environment(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["value"] == 7


def test_init_writes_an_example_once(holdfast: Program) -> None:
    file = Path(holdfast.environment()["XDG_CONFIG_HOME"]) / "holdfast" / "config.toml"
    assert holdfast("config", "init").out == f"{file}\n"
    assert file.read_text() == example_file()
    file.write_text("parallel = 5")
    assert holdfast("config", "init", code=4).complaint == f"{file} exists already; nothing was written"
    assert file.read_text() == "parallel = 5"
    assert os.listdir(file.parent) == [file.name], "nothing is left beside it"


def test_schema_prints_what_is_shipped(holdfast: Program) -> None:
    assert json.loads(holdfast("config", "schema").out) == settings_schema()
    assert holdfast("config", "schema", "--json").object == settings_schema()


def test_no_setting_is_called_like_an_action() -> None:
    assert not {field.name for field in msgspec.structs.fields(Settings)} & {"init", "path", "schema", "trust"}


def test_what_is_made_from_the_settings_is_up_to_date() -> None:
    assert configuration.stale() == [], "run scripts/configuration.py"


def test_the_example_of_the_documentation_is_good(holdfast: Program, user: Path) -> None:
    text = Path(configuration.DOCS).read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    assert len(tomllib.loads(text)) > 5
    user.write_text(text)
    holdfast("config")


def test_an_agent_of_the_user_is_listed_and_can_be_probed(holdfast: Program, user: Path) -> None:
    book = Path(holdfast.cwd) / "book.yaml"
    book.write_text('{"otherwise": [{"say": "OK"}], "agent": {"load": "absent", "resume": "absent"}}')
    command = [sys.executable, "-m", "holdfast", "agent", "playbook", str(book)]
    user.write_text(f"[agents.mine]\ntitle = 'My own'\ncommand = {json.dumps(command)}\n")
    (line,) = [line for line in holdfast("agents", "ls").lines if line.startswith("mine")]
    assert "My own" in line
    assert "installed" in line
    state = {"HOLDFAST_PLAYBOOK_STATE": os.path.join(holdfast.cwd, "memory")}
    assert (
        holdfast("agents", "probe", "mine", env=state).out == "resume not offered, load not offered, reports no cost\n"
    )
