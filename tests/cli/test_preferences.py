"""`holdfast preferences`: what agents propose, and the user's word on it."""

import os
import signal
from pathlib import Path

import pytest

from holdfast.core.events.phase import PreferencesProposed
from tests.cli.program import Program, failpoint_environment
from tests.cli.runs import make_run

BRIEF, SMALL = "be brief", "keep modules   small"


@pytest.fixture(autouse=True)
def runs(home: str) -> None:
    make_run(home, "auth-system-k3x9p2", PreferencesProposed(role="architect", preferences=[BRIEF, SMALL]))
    proposed = [PreferencesProposed(role=role, preferences=[BRIEF]) for role in ("architect", "reviewer:logic")]
    make_run(home, "billing-a1b2c3", *proposed)


def listed(holdfast: Program, *more: str) -> dict[tuple[str, str], str]:
    rows = holdfast("preferences", "ls", "--json", *more).objects
    return {(row["role"], row["text"]): row["id"] for row in rows}


def of_user(holdfast: Program, role: str) -> Path:
    return Path(holdfast.home, "config", "holdfast", "preferences", f"{role}.md")


def test_proposals_of_all_runs_are_listed_each_once_and_nobody_accepted_them(holdfast: Program) -> None:
    found = holdfast("preferences", "ls", "--json").objects
    assert [(one["role"], one["text"], one["said"], one["runs"]) for one in found] == [
        ("architect", "be brief", "proposed", ["auth-system-k3x9p2", "billing-a1b2c3"]),
        ("architect", "keep modules small", "proposed", ["auth-system-k3x9p2"]),
        ("reviewer:logic", "be brief", "proposed", ["billing-a1b2c3"]),
    ]
    assert len(listed(holdfast, "billing")) == 2
    assert not Path(holdfast.home, "config").exists()
    assert "keep modules small" in holdfast("preferences", "ls").out


def test_what_is_accepted_is_a_line_for_its_role_and_is_proposed_no_more(holdfast: Program) -> None:
    known = listed(holdfast)
    both = (known["architect", "be brief"][:6], known["architect", "keep modules small"])
    holdfast("preferences", "accept", *both)
    holdfast("preferences", "accept", *both)  # once is enough, twice does no harm
    assert of_user(holdfast, "architect").read_text() == "- be brief\n- keep modules small\n"
    assert list(listed(holdfast)) == [("reviewer:logic", "be brief")]
    assert len(listed(holdfast, "--all")) == 3
    here = holdfast("preferences", "accept", known["reviewer:logic", "be brief"], "--here", "--json").object
    assert here["file"] == os.path.join(holdfast.cwd, ".holdfast", "preferences", "reviewer-logic.md")
    assert Path(here["file"]).read_text() == "- be brief\n"
    assert listed(holdfast) == {}


def test_what_the_user_wrote_there_stays(holdfast: Program) -> None:
    file = of_user(holdfast, "architect")
    file.parent.mkdir(parents=True)
    file.write_text("# Mine\n\n- think first")
    holdfast("preferences", "accept", listed(holdfast)["architect", "be brief"])
    assert file.read_text() == "# Mine\n\n- think first\n- be brief\n"


def test_what_is_refused_is_not_proposed_again_by_whichever_run(holdfast: Program, home: str) -> None:
    name = listed(holdfast)["architect", "be brief"]
    holdfast("preferences", "refuse", name)
    make_run(home, "later-d4e5f6", PreferencesProposed(role="architect", preferences=[BRIEF]))
    assert ("architect", "be brief") not in listed(holdfast)
    assert not of_user(holdfast, "architect").exists()
    holdfast("preferences", "accept", name)  # a change of mind
    assert of_user(holdfast, "architect").read_text() == "- be brief\n"
    assert "is accepted already; take its line out of" in holdfast("preferences", "refuse", name, code=2).complaint


def test_the_line_decides_whatever_was_said_before(holdfast: Program) -> None:
    name = listed(holdfast)["architect", "be brief"]
    holdfast("preferences", "accept", name)
    of_user(holdfast, "architect").write_text("")
    assert ("architect", "be brief") in listed(holdfast), "taken out by hand, it is open again"
    holdfast("preferences", "refuse", name)
    of_user(holdfast, "architect").write_text("- be brief\n")  # as `accept` does, cut off before it says so
    (found,) = [one for one in holdfast("preferences", "ls", "--all", "--json").objects if one["id"] == name]
    assert found["said"] == "accepted"


def test_one_that_nobody_proposed_is_named(holdfast: Program) -> None:
    assert "no preference 'ffffffffff' was proposed" in holdfast("preferences", "accept", "f" * 10, code=2).complaint
    assert "accept needs an ID" in holdfast("preferences", "accept", code=2).err


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_while_it_is_accepted_it_is_proposed_still_or_accepted_and_never_half(
    holdfast: Program, tmp_path: Path, side: str
) -> None:
    name = listed(holdfast)["architect", "be brief"]
    env = failpoint_environment(os.fspath(tmp_path), f"preference.decide.{side}:1")
    holdfast("preferences", "accept", name, code=-signal.SIGKILL, env=env)
    assert (("architect", "be brief") in listed(holdfast)) == (side == "before")
    holdfast("preferences", "accept", name)
    assert of_user(holdfast, "architect").read_text() == "- be brief\n"
    assert sorted(path.name for path in of_user(holdfast, "architect").parent.iterdir()) == ["architect.md"]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("word", ["accept", "refuse"])
def test_killed_while_the_word_is_kept_it_is_said_or_not_and_can_be_said_again(
    holdfast: Program, tmp_path: Path, word: str, side: str
) -> None:
    """Of what is accepted, the line is there by then: it decides."""
    name = listed(holdfast)["architect", "be brief"]
    env = failpoint_environment(os.fspath(tmp_path), f"preference.mark.{side}:1")
    holdfast("preferences", word, name, code=-signal.SIGKILL, env=env)
    assert (("architect", "be brief") in listed(holdfast)) == ((word, side) == ("refuse", "before"))
    holdfast("preferences", word, name)
    assert ("architect", "be brief") not in listed(holdfast)
    assert of_user(holdfast, "architect").exists() == (word == "accept")
