"""One of every prompt, of a task that has everything; `python -m tests.workflows.prompt_examples` writes them anew."""

from pathlib import Path

from holdfast.core.messages.signals import Criterion, SubmitCase
from holdfast.core.task_state import Check, EvaluatorVerdict
from holdfast.core.work.tasks import TaskSpec
from holdfast.workflows.task_prompts import (
    Brief,
    MemoryChannel,
    begin_work,
    evaluate,
    evaluate_again,
    nudge,
    repair_merge,
    resolve_conflicts,
    work_again,
)

FOLDER = Path(__file__).parent / "prompts"

TASK = TaskSpec(
    id="T-2",
    title="Add the table of users",
    description="One row a user.\n\n```sql\ncreate table users (name text)\n```",
    acceptance_criteria=("a user can be stored", "no user is there twice"),
    files=("app/users.py", "tests/test_users.py"),
)
SMALL = Brief("", TaskSpec(id="fix", title="Fix the typo in README"), "holdfast/r1/fix", must_submit=False)
BRIEF = Brief(
    goal="Users can log in.",
    task=TASK,
    branch="holdfast/r1/T-2",
    overview="A login, in three tasks.",
    memory=(MemoryChannel("AGENTS.md", "Run `make check`."), MemoryChannel("progress", "…T-1 is done.", cut=True)),
    ledger=(
        EvaluatorVerdict(
            1, False, "acceptance_gap", "Two users of one name.", "app/users.py:12", "Make the name unique."
        ),
        EvaluatorVerdict(
            2, False, "weak_test", "The test stores nothing.", "tests/test_users.py:3", "Store one, read it."
        ),
    ),
    instructions=("Use SQLite.",),
    messages=("Names are at most 80 characters.",),
)
CHECKS = (
    Check("ruff", True),
    Check("pytest", False, "E   assert 1 == 2\n1 failed\n", "exit code 1"),
    Check("mypy", False, "", "took longer than 600 s and was killed"),
)
CASE = SubmitCase(
    summary="Users are kept in a table.",
    criteria=[
        Criterion(criterion="a user can be stored", met=True, evidence="test_store passes"),
        Criterion(criterion="no user is there twice", met=False, evidence="not done"),
    ],
    workarounds=["no migration"],
    uncertainties=["names are case-sensitive"],
)
DIFF = "--- a/app/users.py\n+++ b/app/users.py\n@@ -0,0 +1 @@\n+users = {}\n"

PROMPTS = {
    "begin-work": begin_work(BRIEF),
    "begin-small-work": begin_work(SMALL),
    "work-again-after-validators": work_again(BRIEF._replace(checks=CHECKS)),
    "work-again-after-a-rejection": work_again(BRIEF),
    "work-again-in-a-worktree-made-again": work_again(SMALL._replace(lost=True)),
    "nudge": nudge(BRIEF),
    "resolve-conflicts": resolve_conflicts(BRIEF._replace(ledger=()), ["app/users.py", "app/näme.py"]),
    "repair-merge": repair_merge(BRIEF._replace(ledger=(), checks=CHECKS), []),
    "repair-merge-with-conflicts": repair_merge(SMALL._replace(checks=CHECKS), ["app/users.py"]),
    "evaluate": evaluate(BRIEF._replace(checks=(Check("pytest", True, problem="flaky"),)), CASE, DIFF),
    "evaluate-a-cut-diff": evaluate(SMALL, None, DIFF, "git diff 1a2b3c4"),
    "evaluate-again": evaluate_again(),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in PROMPTS.items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
