"""Facts of memory: the project's guides and the run's own words, bounded at whole characters, each with its hash."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.core.config.settings import MemoryCaps
from holdfast.engine.prompts.memory import LoadedChannel, MemoryText, encode_channels, load_memory

CAPS = MemoryCaps(total=40, channel=20)


def progress(text: str) -> MemoryText:
    return MemoryText("progress", text, from_end=True)


def present(channels: Sequence[LoadedChannel]) -> list[LoadedChannel]:
    return [one for one in channels if one.is_present]


def test_guides_come_first_then_what_the_run_tells(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\ufeffRun make check.\n", encoding="utf-8")
    (tmp_path / "CLAUDE.md").write_text("Be brief.", encoding="utf-8")
    found = load_memory(str(tmp_path), MemoryCaps(), [MemoryText("plan", "T-1, T-2"), progress("T-1 is done.")])
    assert [(one.name, one.text, one.cut) for one in found] == [
        ("AGENTS.md", "Run make check.\n", False),
        ("CLAUDE.md", "Be brief.", False),
        ("plan", "T-1, T-2", False),
        ("progress", "T-1 is done.", False),
    ]
    assert found[1].sha256 == hashlib.sha256(b"Be brief.").hexdigest()[:16]
    assert [one.size for one in found] == [19, 9, 8, 12]


def test_channel_that_says_nothing_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    found = load_memory(str(tmp_path), CAPS, [MemoryText("plan", "")])
    assert [(one.name, one.is_present, one.size, one.text) for one in found] == [
        ("AGENTS.md", True, 2, ""),
        ("CLAUDE.md", False, 0, ""),
        ("plan", False, 0, ""),
    ]


def test_each_is_cut_at_whole_characters_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("€" * 30, encoding="utf-8")
    guide, tail = present(load_memory(str(tmp_path), CAPS, [progress("x" * 20 + "ü" * 10)]))
    assert guide.text == "€" * 20 + "\n[… 6 characters and 10 bytes left out …]"
    assert tail.text == "[… 10 characters left out …]\n" + "x" * 10 + "ü" * 10
    assert guide.cut
    assert tail.cut


def test_size_and_hash_are_of_the_whole_file(tmp_path: Path) -> None:
    """Whatever is sent of it."""
    text = "€" * 30
    (tmp_path / "AGENTS.md").write_text(text, encoding="utf-8")
    (guide,) = present(load_memory(str(tmp_path), CAPS))
    assert (guide.size, guide.sha256) == (90, hashlib.sha256(text.encode()).hexdigest()[:16])
    (row, _) = msgspec.json.decode(encode_channels(load_memory(str(tmp_path), CAPS)))
    assert row == {
        "name": "AGENTS.md",
        "present": True,
        "bytes": 90,
        "sha256": guide.sha256,
        "sent": len(guide.text),
        "cut": True,
    }


def test_large_channel_does_not_push_out_a_small_one(tmp_path: Path) -> None:
    given = [MemoryText("a", "a" * 15), MemoryText("b", "b" * 20), MemoryText("c", "c" * 4), progress("x" * 50)]
    found = present(load_memory(str(tmp_path), CAPS, given))
    assert [(one.name, one.text) for one in found] == [
        ("a", "a" * 12 + "\n[… 3 characters left out …]"),
        ("b", "b" * 12 + "\n[… 8 characters left out …]"),
        ("c", "c" * 4),
        ("progress", "[… 38 characters left out …]\n" + "x" * 12),
    ]


def test_a_guide_that_leads_out_of_the_worktree_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "AGENTS.md").symlink_to("../secret")
    (tree / "CLAUDE.md").symlink_to("docs.md")
    assert present(load_memory(str(tree), CAPS)) == []
    (tree / "docs.md").write_text("inside")
    assert [(one.name, one.text) for one in present(load_memory(str(tree), CAPS))] == [("CLAUDE.md", "inside")]


def test_two_names_of_one_file_are_one_channel(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [one.name for one in load_memory(str(tmp_path), CAPS)] == ["AGENTS.md"]


def test_what_is_no_text_and_no_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"a\xff\x00b")
    os.mkfifo(tmp_path / "CLAUDE.md")
    (found,) = present(load_memory(str(tmp_path), CAPS))
    assert found.text == "a\N{REPLACEMENT CHARACTER}\0b"
    (half,) = present(load_memory(str(tmp_path / "nowhere"), CAPS, [progress("half a character: \ud800")]))
    assert half.sha256 is not None


def test_a_guide_of_any_size_is_read_within_bounds(tmp_path: Path) -> None:
    with open(tmp_path / "AGENTS.md", "wb") as file:
        file.write(b"begin ")
        file.truncate(1 << 40)  # a sparse terabyte
    (found,) = present(load_memory(str(tmp_path), CAPS))
    assert found.text.startswith("begin ")
    assert found.cut
    assert "1099511627696 bytes left out" in found.text
    assert (found.size, found.sha256) == (1 << 40, None)
