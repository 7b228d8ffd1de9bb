"""Facts of memory: the project's guides and the run's own words, bounded at whole characters, each with its hash."""

import hashlib
import os
from pathlib import Path

from holdfast.core.settings import MemoryCaps
from holdfast.engine.memory import load

CAPS = MemoryCaps(total=40, channel=20)


def test_guides_come_first_then_what_the_run_tells(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\ufeffRun make check.\n", encoding="utf-8")
    (tmp_path / "CLAUDE.md").write_text("Be brief.", encoding="utf-8")
    found = load(str(tmp_path), MemoryCaps(), "T-1 is done.", {"plan": "T-1, T-2"})
    assert [(one.name, one.text, one.cut) for one in found] == [
        ("AGENTS.md", "Run make check.\n", False),
        ("CLAUDE.md", "Be brief.", False),
        ("plan", "T-1, T-2", False),
        ("progress", "T-1 is done.", False),
    ]
    assert all(one.characters == len(one.text) for one in found)
    assert found[1].sha256 == hashlib.sha256(b"Be brief.").hexdigest()[:16]


def test_what_says_nothing_is_no_channel(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert load(str(tmp_path), CAPS, "\n", {"plan": ""}) == []


def test_each_is_cut_at_whole_characters_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("€" * 30, encoding="utf-8")
    guide, progress = load(str(tmp_path), CAPS, "x" * 20 + "ü" * 10)
    assert guide.text == "€" * 20 + "\n[… 6 characters and 10 bytes left out …]"
    assert progress.text == "[… 10 characters left out …]\n" + "x" * 10 + "ü" * 10
    assert guide.cut
    assert progress.cut


def test_all_of_them_are_bounded_together_and_what_found_no_room_is_named(tmp_path: Path) -> None:
    found = load(str(tmp_path), CAPS, "x" * 50, {"a": "a" * 15, "b": "b" * 20, "c": "c" * 20})
    assert [(one.name, one.text) for one in found] == [
        ("a", "a" * 15),
        ("b", "b" * 20),
        ("c", "ccccc\n[… 15 characters left out …]"),
        ("progress", "[… 50 characters left out …]\n"),
    ]


def test_a_guide_that_leads_out_of_the_worktree_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "AGENTS.md").symlink_to("../secret")
    (tree / "CLAUDE.md").symlink_to("docs.md")
    assert load(str(tree), CAPS) == []
    (tree / "docs.md").write_text("inside")
    assert [(one.name, one.text) for one in load(str(tree), CAPS)] == [("CLAUDE.md", "inside")]


def test_two_names_of_one_file_are_one_channel(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [one.name for one in load(str(tmp_path), CAPS)] == ["AGENTS.md"]


def test_what_is_no_text_and_no_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a\xff\x00b")
    os.mkfifo(tmp_path / "CLAUDE.md")
    (found,) = load(str(tmp_path), CAPS, "", {})
    assert found.text == "a\N{REPLACEMENT CHARACTER}\0b"
    (half,) = load(str(tmp_path / "nowhere"), CAPS, "half a character: \ud800")
    assert len(half.sha256) == 16


def test_a_guide_of_any_size_is_read_within_bounds(tmp_path: Path) -> None:
    with open(tmp_path / "AGENTS.md", "wb") as file:
        file.write(b"begin ")
        file.truncate(1 << 40)  # a sparse terabyte
    (found,) = load(str(tmp_path), CAPS)
    assert found.text.startswith("begin ")
    assert found.cut
    assert "1099511627696 bytes left out" in found.text
