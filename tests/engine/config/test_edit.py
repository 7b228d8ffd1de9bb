"""One setting of the user's config is changed; every other line stays as it is."""

import os
from pathlib import Path

import pytest

from holdfast.engine.config.edit import change_user_setting
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput
from tests.support.children import change_setting
from tests.support.processes import KILLED, child

BEFORE = """\
# my settings
agent = "claude"  # the good one

[caps]
# enough for a night
iterations = 8
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv("HOLDFAST_CONFIG", str(file))
    return file


@pytest.mark.parametrize(
    ("key", "value", "old", "new"),
    [
        ("caps.iterations", 9, "iterations = 8\n", "iterations = 9\n"),
        ("caps.iterations", None, "iterations = 8\n", ""),
        ("caps.dollars", 2.5, "[caps]\n", "[caps]\ndollars = 2.5\n"),
        ("validators.detect", False, "= 8\n", "= 8\n\n[validators]\ndetect = false\n"),
        ("model", 'say "hi"', "# my", 'model = "say \\"hi\\""\n# my'),
    ],
)
def test_only_the_line_of_the_setting_changes(config: Path, key: str, value: object, old: str, new: str) -> None:
    config.write_text(BEFORE, encoding="utf-8")
    change_user_setting(Home("home"), key, value)
    assert config.read_text(encoding="utf-8") == BEFORE.replace(old, new, 1)


def test_linked_config_stays_a_link(config: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(BEFORE, encoding="utf-8")
    config.symlink_to(real)
    change_user_setting(Home("home"), "caps.iterations", 9)
    assert config.is_symlink()
    assert "iterations = 9" in real.read_text(encoding="utf-8")


def test_setting_that_does_not_fit_changes_nothing(config: Path) -> None:
    config.write_text(BEFORE, encoding="utf-8")
    for key, value in (("caps.iterations", "many"), ("no.such", 1), ("caps..x", 1)):
        with pytest.raises(BadInput):
            change_user_setting(Home("home"), key, value)
    assert config.read_text(encoding="utf-8") == BEFORE


@pytest.mark.parametrize(("side", "iterations"), [("before", 8), ("after", 9)])
def test_killed_while_it_changes_the_config_is_whole(config: Path, side: str, iterations: int) -> None:
    config.write_text(BEFORE, encoding="utf-8")
    passes = Path(f"{config}.passes")
    passes.touch()
    with child(change_setting, os.fspath(config), f"config.change.{side}:1:self", os.fspath(passes)) as process:
        assert process.wait() == KILLED
    assert config.read_text(encoding="utf-8") == BEFORE.replace("= 8", f"= {iterations}")
