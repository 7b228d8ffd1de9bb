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
    assert holdfast("workflow", "check", str(file)).out == f"{file}: sound, 5 phases\n"
    file.write_text(SMALL.replace("on_fail: fixing", "on_fail: mending"))
    assert (
        f"holdfast: {file}:13: phases[2].on_fail: there is no phase 'mending'"
        in holdfast("workflow", "check", str(file), code=2).err
    )


def test_prompts_of_ones_own_are_named_and_a_wrong_place_in_one_is_told_with_its_line(holdfast: Program) -> None:
    folder = Path(holdfast.cwd, ".holdfast", "prompts")
    folder.mkdir(parents=True)
    (folder / "evaluator.md").write_text("Be strict with {{task_id}}.\n")
    assert f"evaluator          {folder}/evaluator.md" in holdfast("workflow", "check", "loop").out
    assert "evaluator" in holdfast("workflow", "show", "pipeline").out
    assert holdfast("workflow", "show", "loop", "--json").object["prompts"] == {"evaluator": f"{folder}/evaluator.md"}
    assert "Prompts of your own" not in holdfast("workflow", "show", "solo").out
    (folder / "evaluator.md").write_text("Be strict\nwith {{tsk}}.\n")
    for command in (("workflow", "check", "loop"), ("plan", "x", "--workflow", "loop")):
        complaint = holdfast(*command, code=2).complaint
        assert complaint == f"{folder}/evaluator.md:2: there is no place 'tsk'; did you mean task?"


def test_a_run_is_not_begun_by_a_workflow_that_is_not_sound(holdfast: Program, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("name: x\n")
    assert f"{file}:1: the key 'about' is missing" in holdfast("plan", "x", "--workflow", str(file), code=2).err
    wrong = holdfast("plan", "x", "--workflow", "pipeline", "--with", "designing", code=2).err
    assert "--with designing: the workflow pipeline has no such optional phase; it has product_management" in wrong


def test_the_schema_is_one(holdfast: Program) -> None:
    assert "$defs" in holdfast("workflow", "schema", "--json").object
