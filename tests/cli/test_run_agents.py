"""What a run gives its agents, and takes from them: a model, a word after each edit, what they have learnt."""

import json
from pathlib import Path

from holdfast.store.files.layout import run_folder
from tests.support.cli_stage import CASE, EVALUATE, Stage, worker

MODELS = {"models": {"current": "small", "available": ["small", "large"]}}
LEARNT = {"mcp": {"tool": "submit_case", "arguments": {**CASE, "learnings": ["tests live in t/"]}}}


def test_the_model_of_a_role_is_chosen_where_the_agent_offers_it(stage: Stage, tmp_path: Path) -> None:
    agent = stage.book(worker({"say": "hello"}), agent=MODELS)
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    run = stage.run("say hello", "--agent", agent, "--set", "roles.worker.model=LARGE", env=state)
    assert stage.events(run, "warning.logged") == []
    (session,) = (tmp_path / "state").rglob("play-*.json")
    assert json.loads(session.read_text(encoding="utf-8"))["config"] == {"model": "large"}


def test_a_model_that_nobody_offers_is_a_remark_and_the_agent_chooses(stage: Stage) -> None:
    agent = stage.book(worker({"say": "hello"}), agent=MODELS)
    run = stage.run("say hello", "--agent", agent, "--set", "roles.worker.model=huge")
    (warning,) = stage.events(run, "warning.logged")
    assert "offers no model 'huge'; it offers small, large" in warning["data"]["message"]


def test_a_hook_is_told_of_each_edit(stage: Stage, tmp_path: Path) -> None:
    told = tmp_path / "told"
    hook = json.dumps([["sh", "-c", f"cat >> {told}; echo >> {told}"]])
    agent = stage.book(worker({"write": {"path": "a.txt", "text": "a\n"}}, {"run": "true"}))
    run = stage.run("write a file", "--agent", agent, "--set", f"hooks.post_edit={hook}")
    (edit,) = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
    assert edit["hook"] == "post_edit"
    assert [Path(path).name for path in edit["paths"]] == ["a.txt"]
    assert [event["data"]["hook"] for event in stage.events(run, "hook.ran")] == ["post_edit"]


def test_what_agents_have_learnt_is_a_page_for_the_user(stage: Stage) -> None:
    agent = stage.book(worker(LEARNT), EVALUATE)
    run = stage.run(stage.tasks("A"), "--workflow", "loop", "--agent", agent)
    page = Path(run_folder(stage.home, run), "proposed-learnings.md").read_text(encoding="utf-8")
    assert "- tests live in t/\n" in page
