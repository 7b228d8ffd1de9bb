"""`holdfast workflow`: those there are, drawn, and whether one of a user's is sound."""

from pathlib import Path

from holdfast.workflows.builtin import BUILT_IN
from tests.cli.program import Program
from tests.support.pipelines import SMALL


def test_those_that_come_with_holdfast_are_listed_and_drawn(holdfast: Program) -> None:
    assert [one["name"] for one in holdfast("workflow", "ls", "--json").objects] == list(BUILT_IN)
    drawn = holdfast("workflow", "show", "pipeline").out
    phases = ("architecting", "planning", "designing", "implementing", "reviewing", "fixing", "completing")
    assert sorted(phases, key=drawn.index) == list(phases)
    assert "├─ fails ─► fixing" in drawn
    assert "at most 3 times" in drawn
    assert "[when plan.needs_design]" in drawn


def test_a_file_is_checked_and_what_is_wrong_is_told_with_its_line(holdfast: Program, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SMALL)
    assert holdfast("workflow", "check", str(file)).out == f"{file}: valid, 5 phases\n"
    file.write_text(SMALL.replace("on_fail: fixing", "on_fail: mending"))
    assert (
        f"holdfast: {file}:13: phases[2].on_fail: there is no phase 'mending'"
        in holdfast("workflow", "check", str(file), code=2).err
    )


def test_check_reports_every_mistake_at_once(holdfast: Program, tmp_path: Path) -> None:
    """Of the file, of the templates and of the roles in the config, each with its file and line."""
    file, prompts = tmp_path / "mine.yaml", Path(holdfast.cwd, ".holdfast", "prompts")
    config = Path(holdfast.environment()["XDG_CONFIG_HOME"]) / "holdfast" / "config.toml"
    config.parent.mkdir(parents=True)
    wrong = SMALL.replace("role: planner", "role: plannner").replace("[reviewer]", "[revewer, 'reviewer:logic']")
    file.write_text(wrong.replace("on_fail: fixing", "on_fail: fixin"))
    config.write_text('parallel = 2\n[roles.evaluater]\nagent = "codex"\n')
    outcome = holdfast("workflow", "check", str(file), "--json", code=2)
    assert [(one["file"], one["line"], one["path"]) for one in outcome.objects] == [
        (str(file), 7, "phases[0].role"),
        (str(file), 12, "phases[2].roles[0]"),
        (str(file), 13, "phases[2].on_fail"),
        (str(file), 17, "phases[3].detour"),
        (str(config), 2, "roles.evaluater"),
    ]
    assert ["did you mean" in one["what"] for one in outcome.objects] == [True, True, True, False, True]
    assert len(outcome.err.splitlines()) == len(outcome.objects)

    file.write_text(SMALL.replace("[reviewer]", "['reviewer:logic']"))
    prompts.mkdir(parents=True)
    (prompts / "planner.md").write_text("{{gaol}}\n{{plam}}\n")
    config.write_text('[roles."reviewer:logik"]\nagent = "codex"\n')
    outcome = holdfast("workflow", "check", str(file), "--json", code=2)
    assert [(one["file"], one["line"]) for one in outcome.objects] == [
        (f"{prompts}/planner.md", 1),
        (f"{prompts}/planner.md", 2),
        (str(config), 2),
    ]
    assert outcome.objects[-1]["what"] == "no phase has this role; did you mean reviewer:logic?"


def test_misspelled_role_in_the_config_or_a_flag_is_refused(holdfast: Program) -> None:
    wrong = holdfast("plan", "x", "--set", "roles.workr.agent=codex", code=2).complaint
    assert "there is no role 'workr'; did you mean worker?" in wrong
    Path(holdfast.cwd, "mine.toml").write_text('[roles."reviwer:logic"]\nagent = "codex"\n')
    complaint = holdfast("config", env={"HOLDFAST_CONFIG": "mine.toml"}, code=2).complaint
    assert complaint.endswith("there is no role 'reviwer'; did you mean reviewer?")


def test_prompts_of_ones_own_are_named_and_a_wrong_place_in_one_is_told_with_its_line(holdfast: Program) -> None:
    folder = Path(holdfast.cwd, ".holdfast", "prompts")
    folder.mkdir(parents=True)
    (folder / "evaluator.md").write_text("Be strict with {{task_id}}.\n")
    assert f"evaluator          {folder}/evaluator.md" in holdfast("workflow", "check", "loop").out
    assert "evaluator" in holdfast("workflow", "show", "pipeline").out
    assert holdfast("workflow", "show", "loop", "--json").object["prompts"] == {"evaluator": f"{folder}/evaluator.md"}
    assert "Your own prompts" not in holdfast("workflow", "show", "solo").out
    (folder / "evaluator.md").write_text("Be strict\nwith {{tsk}}.\n")
    for command in (("workflow", "check", "loop"), ("plan", "x", "--workflow", "loop")):
        complaint = holdfast(*command, code=2).complaint
        assert complaint == f"{folder}/evaluator.md:2: there is no variable 'tsk'; did you mean task?"


def test_a_run_is_not_begun_by_a_workflow_that_is_not_sound(holdfast: Program, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: x\n")
    assert f"{file}:1: the key 'about' is missing" in holdfast("plan", "x", "--workflow", str(file), code=2).err
    wrong = holdfast("plan", "x", "--workflow", "pipeline", "--with", "designing", code=2).err
    assert "--with designing: the workflow pipeline has no such optional phase; it has product_management" in wrong


def test_the_schema_is_one(holdfast: Program) -> None:
    assert "$defs" in holdfast("workflow", "schema", "--json").object
