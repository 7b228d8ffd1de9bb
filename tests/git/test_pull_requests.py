"""Pull requests, by a `gh` that keeps what it was asked for in a file: never a second one."""

import json
import os
import sys
from typing import Any

import pytest

from holdfast.git.effects import EffectSite, OpenPullRequest, ProbeOutcome, ProbeResult
from holdfast.git.process import GitFailed
from holdfast.git.remote import can_open_pull_requests
from holdfast.leaf.errors import BadInput, HoldfastError
from tests.support.repositories import UserRepository, put, working_on

GH = """#!{python}
import json, os, sys
state = json.load(open({state!r}))
words = sys.argv[1:]
option = dict(zip(words, words[1:]))
if state["fails"]:
    sys.exit(print(state["fails"], file=sys.stderr) or 1)
elif words[:2] == ["pr", "list"]:
    found = [pr for pr in state["opened"] if pr["head"] == option["--head"]]
    found = [pr for pr in found if option["--state"] == "all" or pr["state"] == "OPEN"]
    print(state["says"] or json.dumps([{{"url": pr["url"]}} for pr in found][: int(option["--limit"])]))
elif words[:2] == ["pr", "create"]:
    url = f"https://example.org/pull/{{len(state['opened']) + 1}}"
    named = {{name[2:]: value for name, value in option.items() if name.startswith("--")}}
    state["opened"].append({{"url": url, "state": "OPEN", **named, "draft": "--draft" in words}})
    json.dump(state, open({state!r}, "w"))
    if state["dies"]:
        os._exit(9)
    print(url)
"""


class GitHub:
    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "github.json")
        self.set(opened=[], fails="", says="", dies=False)
        put(folder, {"bin/gh": GH.format(python=sys.executable, state=self.path)})
        os.chmod(os.path.join(folder, "bin/gh"), 0o755)

    @property
    def state(self) -> dict[str, Any]:
        with open(self.path, encoding="utf-8") as file:
            return dict(json.load(file))

    def set(self, **changes: Any) -> None:
        state = {**(self.state if os.path.exists(self.path) else {}), **changes}
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(state, file)


@pytest.fixture
def github(folder: str, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    monkeypatch.setenv("PATH", f"{folder}/bin{os.pathsep}{os.environ['PATH']}")
    return GitHub(folder)


REQUEST = OpenPullRequest(base="main", title='-t: it\'s "new"', body="Body\n\nwith lines", draft=True)


async def test_it_is_asked_for_once(repo: UserRepository, home: str, github: GitHub) -> None:
    async with working_on(repo, home) as w:
        first = await w.effects.perform(REQUEST)
        assert first == {"url": "https://example.org/pull/1"}
        assert await w.effects.perform(REQUEST) == first
        [opened] = github.state["opened"]
        assert opened["head"] == w.place().branch
        assert (opened["base"], opened["title"], opened["body"], opened["draft"]) == (
            "main", REQUEST.title, REQUEST.body, True,
        )  # fmt: skip


async def test_one_that_was_closed_is_not_asked_for_again(repo: UserRepository, home: str, github: GitHub) -> None:
    async with working_on(repo, home) as w:
        first = await w.effects.perform(REQUEST)
        github.set(opened=[{**pr, "state": "CLOSED"} for pr in github.state["opened"]])
        assert await w.effects.perform(REQUEST) == first


async def test_one_whose_answer_was_lost_is_found(repo: UserRepository, home: str, github: GitHub) -> None:
    github.set(dies=True)
    async with working_on(repo, home) as w:
        assert await w.effects.perform(REQUEST) == {"url": "https://example.org/pull/1"}
        assert len(github.state["opened"]) == 1


async def test_what_gh_says_is_passed_on(repo: UserRepository, home: str, github: GitHub) -> None:
    github.set(fails="not logged in;\nrun gh auth login")
    async with working_on(repo, home) as w:
        with pytest.raises(GitFailed, match=r"^`gh pr list` failed: not logged in; run gh auth login$"):
            await w.effects.perform(REQUEST)
        github.set(fails="")
        assert [settled.probe.outcome for settled in await w.effects.settle()] == [ProbeOutcome.NO]


@pytest.mark.parametrize("says", ["not JSON", "{}", '[{"no": "url"}]', "[1]", "3"])
async def test_an_answer_that_is_no_list_is_one_clear_line(
    repo: UserRepository, home: str, github: GitHub, says: str
) -> None:
    github.set(says=says)
    async with working_on(repo, home) as w:
        if says == "{}":
            assert (await w.effects.perform(REQUEST))["url"]
            return
        with pytest.raises(HoldfastError, match="gh printed something that is not a list of pull requests"):
            await w.effects.perform(REQUEST)
        assert github.state["opened"] == []


async def test_without_gh_nobody_is_asked(
    repo: UserRepository, home: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working_on(repo, home) as w:
        monkeypatch.setenv("PATH", folder)
        assert not can_open_pull_requests("https://github.com/me/my/compare")
        probe: ProbeResult = await REQUEST.probe(EffectSite(w.run_id, "e", w.repository, w.effects.folder))
        assert (probe.outcome, probe.reason) == (ProbeOutcome.UNKNOWN, "gh was not found")
        monkeypatch.undo()
    assert BadInput.exit_code == 2
