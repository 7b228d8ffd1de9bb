"""Facts of reading task lists: every form gives the same tasks, and what is wrong is one line with its place."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.work.tasks import TaskList, TaskSpec, input_keys
from holdfast.leaf.errors import BadInput, PlanRejected
from holdfast.workflows.tasklists import read_tasks

_YAML = """
overview: A login.
tasks:
- id: T-10
  title: Add the form
  depends_on: [T-2]
  files: [app/form.py]
- id: T-2
  title: Add the table
  description: |
    A table of users.
  acceptance_criteria:
  - a user can be stored
  - no user twice
  status: done
"""

_TASKS = TaskList(
    tasks=(
        TaskSpec(
            id="T-2",
            title="Add the table",
            description="A table of users.",
            acceptance_criteria=("a user can be stored", "no user twice"),
        ),
        TaskSpec(id="T-10", title="Add the form", depends_on=("T-2",), files=("app/form.py",)),
    ),
    overview="A login.",
    done=("T-2",),
)

_PAGES = {
    "overview.md": "---\ntitle: x\n---\nA login.\n",
    "T-10-form.md": "---\nid: T-10\ndepends_on: T-2\nfiles:\n- app/form.py\n---\n# T-10: Add the form\n",
    "T-2-table.md": (
        "---\nstatus: done\n---\n# Add the table\n\nA table of users.\n\n## Acceptance criteria\n\n"
        "- [ ] a user can be stored\n- [x] no user twice\n"
    ),
}


def put(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def put_pages(folder: Path, pages: dict[str, str]) -> str:
    for name, text in pages.items():
        put(folder, name, text)
    return str(folder)


def test_yaml_json_and_a_folder_of_pages_give_the_same_tasks(tmp_path: Path) -> None:
    stories = [
        {"id": "T-10", "title": "Add the form", "dependencies": ["T-2"], "files": ["app/form.py"]},
        {
            "id": "T-2",
            "title": "Add the table",
            "description": "A table of users.",
            "acceptanceCriteria": ["a user can be stored", "no user twice"],
            "passes": True,
            "priority": 1,
        },
    ]
    prd = json.dumps({"project": "x", "description": "A login.", "userStories": stories})
    assert read_tasks(put(tmp_path, "tasks.yml", _YAML)) == _TASKS
    assert read_tasks(put(tmp_path, "prd.json", prd)) == _TASKS
    assert read_tasks(put_pages(tmp_path / "tasks", _PAGES)) == _TASKS


def test_a_bare_list_is_a_task_list_and_lists_can_lie_deeper(tmp_path: Path) -> None:
    bare = [{"id": 1, "title": "x"}]
    for written in (bare, {"tasks": bare}, {"prd": {"tasks": bare}}, {"prd": bare}):
        found = read_tasks(put(tmp_path, "prd.json", json.dumps(written)))
        assert found == TaskList(tasks=(TaskSpec(id="1", title="x"),))


def test_a_folder_can_hold_one_list(tmp_path: Path) -> None:
    put(tmp_path, "README.md", "about")
    put(tmp_path, "tasks.yaml", _YAML)
    assert read_tasks(str(tmp_path)) == _TASKS


def test_words_stay_as_they_are_written(tmp_path: Path) -> None:
    """YAML would make 1.1, True, a date and a number of them."""
    text = "- {id: 1.10, title: yes, description: 2026-01-01, depends_on: [007]}\n- {id: 007, title: 12:30}"
    assert read_tasks(put(tmp_path, "t.yaml", text)).tasks == (
        TaskSpec(id="1.10", title="yes", description="2026-01-01", depends_on=("007",)),
        TaskSpec(id="007", title="12:30"),
    )
    numbers = '[{"id": 1.10, "title": "x"}, {"id": 2, "title": "y", "depends_on": [1.10]}]'
    assert [task.id for task in read_tasks(put(tmp_path, "t.json", numbers)).tasks] == ["1.10", "2"]


def test_one_page_is_one_task(tmp_path: Path) -> None:
    assert read_tasks(put(tmp_path, "add-a-login.md", "Users log in.\r\n")).tasks == (
        TaskSpec(id="add-a-login", title="add a login", description="Users log in."),
    )
    assert read_tasks(put(tmp_path, "001_add_a_login.md", "")).tasks == (TaskSpec(id="001", title="add a login"),)
    assert read_tasks(put(tmp_path, "T-7.md", "\ufeff# T-7 — Log in\nNow.")).tasks == (
        TaskSpec(id="T-7", title="Log in", description="Now."),
    )


def test_criteria_are_the_list_under_their_heading_and_nothing_else_is_lost(tmp_path: Path) -> None:
    page = """# Build it
Intro.
```
# Acceptance criteria
- not one
```
### Acceptance Criteria:
1. first
   goes on
   - with a part
2) second
# After
- no criterion
## Acceptance criteria of others
In prose.
- third
"""
    (task,) = read_tasks(put(tmp_path, "T-1.md", page)).tasks
    assert task.acceptance_criteria == ("first\ngoes on\n- with a part", "second", "third")
    assert task.description == (
        "Intro.\n```\n# Acceptance criteria\n- not one\n```\n# After\n- no criterion\n"
        "## Acceptance criteria of others\nIn prose.\n- third"
    )


def test_criteria_of_the_front_matter_come_first(tmp_path: Path) -> None:
    page = "---\nacceptance_criteria: one\n---\n# A\n## Acceptance criteria\n- two\n"
    assert read_tasks(put(tmp_path, "T-1.md", page)).tasks[0].acceptance_criteria == ("one",)


def test_the_examples_of_the_documentation_mean_the_same(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "tasks.md"
    blocks = re.findall(r"^```(yaml|json|markdown)\n(.*?)^```$", docs.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    written = dict(blocks)
    pages = {
        "overview.md": "Users can log in.",
        "T-1-table.md": written["markdown"],
        "T-2-form.md": "---\ndepends_on: T-1\n---\n# Add the form",
    }
    found = read_tasks(put(tmp_path, "t.yaml", written["yaml"]))
    assert len(found.tasks) == 2
    assert found.overview
    assert read_tasks(put(tmp_path, "t.json", written["json"])) == found
    assert read_tasks(put_pages(tmp_path / "tasks", pages)) == found


WRONG = [
    ("t.yaml", "", ":1: empty; a task list is a list of tasks"),
    ("t.yaml", "[]", ": contains no task"),
    ("t.yaml", "tasks: []", ": contains no task"),
    ("t.yaml", "tasks: 3", ":1: tasks: expected a list of tasks, got text"),
    ("t.yaml", "a: 1\nb: 2", ":1: contains no list of tasks; it needs the key tasks, and has a, b"),
    ("t.json", '{"a\\nb": 1}', ": contains no list of tasks; it needs the key tasks, and has a b"),
    ("t.yaml", "- x", ":1: [0]: a task is a mapping with an id and a title, not text"),
    ("t.yaml", "- id: a\n  title: b\n- title: c", ":3: [1]: the task has no id"),
    ("t.yaml", "- title: b\n  id: a\n\n- id: c", ":4: [1]: task 'c' has no title; add"),
    ("t.yaml", "- titel: b\n  id: a", ":1: [0]: task 'a' has no title (is 'titel' meant to be title?)"),
    ("t.yaml", "- id: a\n  title: [b]", ":2: [0].title: expected text, got a list"),
    ("t.yaml", "- id: a\n  title: b\n  files: {}", ":3: [0].files: expected a list, got a mapping"),
    ("t.yaml", "- id: a\n  title: b\n  files:\n  - {}", ":4: [0].files[0]: expected text, got a mapping"),
    ("t.yaml", "- id: a\n  title: b\n  acceptance_criteria: ['']", ":3: [0].acceptance_criteria[0]: empty"),
    ("t.yaml", "- id: a\n  title: b\n  acceptence_criteria: []", ":3: [0].acceptence_criteria: there is no such key"),
    ("t.yaml", "- id: a\n  title: b\n  status: cancelled", ":3: [0].status: unknown status 'cancelled'"),
    ("t.yaml", "- id: a\n  title: b\n  passes: maybe", ":3: [0].passes: expected true or false"),
    ("t.yaml", "- id: a\n  title: b\n- id: a\n  title: c", ":3: [1].id: duplicate task id 'a'"),
    ("t.yaml", "- {id: a, title: b, depends_on: [c]}", ": the plan has no task 'c', but a dependency of 'a' names it"),
    (
        "t.yaml",
        "- {id: a, title: b, depends_on: b}\n- {id: b, title: b, depends_on: a}",
        ": the plan has a cycle",
    ),
    ("t.yaml", "- {id: a, title: b, depends_on: a}", ": the plan has a cycle"),
    (
        "t.yaml",
        "- {id: a, title: b, dependsOn: [], depends_on: []}",
        ":1: [0].depends_on: 'dependsOn' and 'depends_on' are the same",
    ),
    ("t.yaml", "- id: a\n  id: b", ":2: duplicate key 'id'"),
    ("t.yaml", "- &a [*a]", ":1: an alias that contains itself"),
    ("t.yaml", "a: b: c", ":1: not YAML: "),
    ("t.yaml", "a: !!int x", ":1: not YAML: "),
    ("t.yaml", "a: !!python/object:os.system x", ":1: not YAML: "),
    ("t.json", "[{]", ":1: not JSON: "),
    ("t.json", '[{"id": "a", "id": "b"}]', ": duplicate key 'id'"),
    ("t.json", '[{"id": "a", "title": true}]', ": [0].title: expected text, got true or false"),
    ("t.json", '[{"id": "a", "title": "\\ud800"}]', ": [0].title: contains an invalid character"),
    ("t.json", '[{"id": "a", "title": "x\\u0000"}]', ": [0].title: contains an invalid character"),
    ("t.json", '[{"id": "a\\nb", "title": "x"}]', ": [0].id: an id is one line"),
    ("t.json", "[" * 100_000, ":1: nested too deeply"),
    ("t.json", "null", ":1: empty"),
    ("t.md", "---\ntitle: x\n", ":1: the front matter has no end"),
    ("t.md", "---\nwords\n---\n", ":2: front matter is a mapping"),
    ("t.md", "---\n\ntitle: {}\n---\n", ":3: title: expected text, got a mapping"),
    ("t.yaml", b"- id: a\n  title: \xff", ":2: not UTF-8 at byte 17"),
    ("t.txt", "x", ": not a task list; use a .json, .yaml or .md file"),
    ("t.yaml", " " * (8 * 1024 * 1024 + 1), ": larger than 8 MiB"),
]


@pytest.mark.parametrize(("name", "text", "said"), WRONG, ids=[f"{name}-{said[:40]}" for name, _, said in WRONG])
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    path = put(tmp_path, name, text)
    with pytest.raises(BadInput) as wrong:
        read_tasks(path)
    assert str(wrong.value).startswith(path + said)
    assert "\n" not in str(wrong.value)


def test_a_bomb_of_aliases_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(BadInput, match="more than 200000 values"):
        read_tasks(put(tmp_path, "t.yaml", "\n".join(lines)))


def test_brackets_without_end_do_not_kill_the_process(tmp_path: Path) -> None:
    """The YAML library falls off the stack over them; hence in a process of its own."""
    path = put(tmp_path, "t.yaml", "[" * 1_000_000)
    program = f"from holdfast.workflows.tasklists import read_tasks; read_tasks({path!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nested too deeply; at most 100 levels" in done.stderr


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file or directory"):
        read_tasks(str(tmp_path / "nowhere.yaml"))
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(BadInput, match="not a regular file"):
        read_tasks(str(tmp_path / "pipe.yaml"))
    with pytest.raises(BadInput, match="is not a valid file name"):
        read_tasks("a\0.yaml")


def test_an_empty_folder_and_one_with_two_lists_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="contains no task"):
        read_tasks(put_pages(tmp_path, {"overview.md": "x", ".hidden.md": "x", "notes.txt": "x"}))
    with pytest.raises(BadInput, match=r"contains more than one task list \(prd.json, T-1.md\)"):
        read_tasks(put_pages(tmp_path, {"prd.json": "[]", "T-1.md": "x"}))


def test_two_pages_of_one_id_are_both_named(tmp_path: Path) -> None:
    pages = {"T-1-a.md": "x", "T-1-b.md": "x"}
    with pytest.raises(PlanRejected, match=r"T-1-a.md and T-1-b.md have the same task id 'T-1'"):
        read_tasks(put_pages(tmp_path, pages))


def tasks_or_complaint(path: str) -> TaskList | str:
    try:
        return read_tasks(path)
    except BadInput as error:
        return str(error)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 20)
    | st.sampled_from(["", "T-1", "done", "x\ny", "a, T-1", "\ud800", "\0"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
_FIELDS = st.dictionaries(
    st.sampled_from(
        ["id", "key", "title", "description", "criteria", "depends_on", "dependsOn", "files", "status", "x"]
    ),
    _VALUES,
    max_size=6,
)


@given(written=st.lists(_FIELDS, max_size=4) | st.fixed_dictionaries({"prd": _VALUES, "overview": _VALUES}))
def test_whatever_is_written_is_tasks_or_one_clear_line(tmp_path_factory: pytest.TempPathFactory, written: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    for name, text in (("t.json", json.dumps(written)), ("t.yaml", yaml.safe_dump(written, allow_unicode=False))):
        found = tasks_or_complaint(put(folder, name, text))
        if isinstance(found, str):
            assert "\n" not in found
        else:
            input_keys(found.tasks)
            assert msgspec.json.decode(msgspec.json.encode(found), type=TaskList) == found


@given(text=st.text(st.sampled_from("-#: \n`~x[]&*!'\"{}|>%@\t\rAcceptance criteria1."), max_size=80))
def test_any_page_is_a_task_or_one_clear_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n{text}", f"# A\n## Acceptance criteria\n{text}"):
        found = tasks_or_complaint(put(tmp_path_factory.getbasetemp(), "T-1-x.md", whole))
        assert "\n" not in found if isinstance(found, str) else found.tasks[0].title
