"""The plan is edited while the run rests: exactly what changed, and what builds on it, is done again."""

from pathlib import Path

import pytest

from tests.support.projects import write
from tests.support.stage import EVALUATE, SUBMIT, Stage, worker

MAKE = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); date +%N > $t.txt"}


AGAIN = {"when": "is not done", "steps": [MAKE, SUBMIT]}


def task(number: int, words: str, needs: str = "") -> str:
    return f"---\nid: T-{number}\ntitle: task {number}\n{needs}---\n{words}\n\n## Acceptance criteria\n\n- works\n"


@pytest.mark.torture
def test_only_what_changed_and_what_builds_on_it_runs_again(stage: Stage) -> None:
    folder = f"{stage.folder}/tasks"
    write(
        folder,
        {
            "T-1-one.md": task(1, "the first"),
            "T-2-two.md": task(2, "the second"),
            "T-3-three.md": task(3, "the third", "depends_on: [T-2]\n"),
        },
    )
    run = stage.run("--workflow", "waves", folder, "--agent", stage.book(EVALUATE, AGAIN, worker(MAKE, SUBMIT)))
    first = [d["taskId"] for d in stage.data(run, "task.completed")]
    assert sorted(first) == ["T-1", "T-2", "T-3"]

    Path(folder, "T-2-two.md").write_text(task(2, "the second, in another way"))
    write(folder, {"T-0-zero.md": task(0, "one more, before all others")})
    assert stage.resume(run)["ended"] == "all_done"
    again = [d["taskId"] for d in stage.data(run, "task.completed")][3:]
    assert sorted(again) == ["T-0", "T-2", "T-3"]
    assert "the plan was changed" in stage.data(run, "run.resumed")[-1]["summary"]
    assert any("in another way" in text for text in stage.prompts(run, "worker"))
    stage.holdfast("resume", run, code=4)
