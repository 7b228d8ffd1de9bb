"""Files outside the worktree stay out of reach, by whatever name or link."""

import asyncio
import os
import stat

import pytest

from holdfast.agents.builtin.file_access import ToolRefused, WorktreeFiles
from holdfast.agents.builtin.shell import Shell
from holdfast.agents.builtin.tools import Toolbox, ToolOutcome, tool_specs


@pytest.fixture
def tree(tmp_path: os.PathLike[str]) -> WorktreeFiles:
    root = os.path.join(tmp_path, "tree")
    os.mkdir(root)
    with open(os.path.join(tmp_path, "secret.txt"), "w", encoding="utf-8") as file:
        file.write("a secret\n")
    os.mkdir(os.path.join(tmp_path, "tree-twin"))
    return WorktreeFiles(root)


@pytest.fixture
def tools(tree: WorktreeFiles) -> Toolbox:
    return Toolbox(tree, Shell(tree.root, {"PATH": os.environ["PATH"]}, "test"))


def _put(tree: WorktreeFiles, name: str, text: str) -> None:
    tree.write(name, text.encode())


async def _do(tools: Toolbox, name: str, **arguments: object) -> ToolOutcome:
    return await tools.prepare(name, arguments, "call-1").perform()


@pytest.mark.parametrize(
    "path",
    ["../secret.txt", "/etc/passwd", "a/../../secret.txt", "../tree-twin/x", "link", "folder/secret.txt", "~root"],
)
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_no_path_leads_out(tree: WorktreeFiles, tools: Toolbox, tool: str, path: str) -> None:
    outside = os.path.dirname(tree.root)
    os.symlink(os.path.join(outside, "secret.txt"), os.path.join(tree.root, "link"))
    os.symlink(outside, os.path.join(tree.root, "folder"))
    extra = {"read": {}, "write": {"content": "x"}, "edit": {"old": "secret", "new": "x"}}[tool]
    if path == "~root":  # just a name
        return
    with pytest.raises(ToolRefused, match="outside"):
        await _do(tools, tool, path=path, **extra)
    with open(os.path.join(outside, "secret.txt"), encoding="utf-8") as file:
        assert file.read() == "a secret\n"
    assert os.listdir(os.path.join(outside, "tree-twin")) == []


@pytest.mark.parametrize("tool", ["glob", "grep"])
async def test_searching_stays_inside(tree: WorktreeFiles, tools: Toolbox, tool: str) -> None:
    os.symlink(os.path.dirname(tree.root), os.path.join(tree.root, "folder"))
    pattern = {"glob": "**/*.txt", "grep": "secret"}[tool]
    assert "secret" not in (await _do(tools, tool, pattern=pattern)).text
    with pytest.raises(ToolRefused, match="outside"):
        await _do(tools, tool, pattern=pattern, path="folder")


async def test_a_link_put_in_between_leads_nowhere(tree: WorktreeFiles, tools: Toolbox) -> None:
    _put(tree, "a/b.txt", "inside")
    prepared = tools.prepare("read", {"path": "a/b.txt"}, "call-1")
    real = tree.resolve("a/b.txt")
    os.rename(os.path.join(tree.root, "a"), os.path.join(tree.root, "moved"))
    os.symlink(os.path.dirname(tree.root), os.path.join(tree.root, "a"))
    with pytest.raises((ToolRefused, FileNotFoundError)), tree._open_parent(real) as (folder, name):
        os.open(name, os.O_RDONLY, dir_fd=folder)
    with pytest.raises(ToolRefused):
        await prepared.perform()


async def test_a_link_inside_is_followed_and_stays(tree: WorktreeFiles, tools: Toolbox) -> None:
    _put(tree, "real.txt", "one")
    os.symlink("real.txt", os.path.join(tree.root, "alias.txt"))
    await _do(tools, "edit", path="alias.txt", old="one", new="two")
    assert tree.read("real.txt") == b"two"
    assert os.path.islink(os.path.join(tree.root, "alias.txt"))


async def test_git_s_own_files_are_not_written(tools: Toolbox) -> None:
    for path in (".git", ".git/hooks/pre-commit", "sub/.git/config"):
        with pytest.raises(ToolRefused, match="belongs to git"):
            await _do(tools, "write", path=path, content="x")


async def test_a_pipe_does_not_make_it_wait(tree: WorktreeFiles, tools: Toolbox) -> None:
    os.mkfifo(os.path.join(tree.root, "pipe"))
    with pytest.raises(ToolRefused, match="not a regular file"):
        await _do(tools, "read", path="pipe")


async def test_edit_replaces_exactly_once_or_says_why_not(tree: WorktreeFiles, tools: Toolbox) -> None:
    _put(tree, "f.py", "a = 1\nb = 1\n")
    with pytest.raises(ToolRefused, match="2 times"):
        await _do(tools, "edit", path="f.py", old="= 1", new="= 2")
    with pytest.raises(ToolRefused, match="not in"):
        await _do(tools, "edit", path="f.py", old="c = 1", new="")
    with pytest.raises(ToolRefused, match="does not exist"):
        await _do(tools, "edit", path="g.py", old="c", new="")
    await _do(tools, "edit", path="f.py", old="= 1", new="= 2", all=True)
    assert tree.read("f.py") == b"a = 2\nb = 2\n"


async def test_a_write_keeps_the_mode_and_leaves_no_other_file(tree: WorktreeFiles, tools: Toolbox) -> None:
    _put(tree, "run.sh", "old")
    os.chmod(os.path.join(tree.root, "run.sh"), 0o755)
    await _do(tools, "write", path="run.sh", content="new")
    assert stat.S_IMODE(os.stat(os.path.join(tree.root, "run.sh")).st_mode) == 0o755
    assert os.listdir(tree.root) == ["run.sh"]


async def test_reading_comes_in_parts(tree: WorktreeFiles, tools: Toolbox) -> None:
    _put(tree, "long.txt", "".join(f"{number}\n" for number in range(1, 11)))
    got = await _do(tools, "read", path="long.txt", offset=3, limit=2)
    assert got.text == "3\n4\n\n[… 6 more lines; read from offset 5]"


async def test_glob_and_grep_find(tree: WorktreeFiles, tools: Toolbox) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt"):
        _put(tree, name, f"# needle in {name}\n")
    assert (await _do(tools, "glob", pattern="**/*.py")).text.split() == ["a.py", "src/b.py", "src/deep/c.py"]
    assert (await _do(tools, "glob", pattern="*.py", path="src")).text.split() == ["src/b.py"]
    found = await _do(tools, "grep", pattern="need.e", include="*.txt")
    assert found.text == "./src/d.txt:1:# needle in src/d.txt\n"
    assert (await _do(tools, "grep", pattern="nothing here")).text == "no lines found"


@pytest.mark.parametrize("arguments", [{}, {"path": 3, "content": []}, {"path": "a\0b"}])
async def test_wrong_arguments_are_told_to_the_model(tools: Toolbox, arguments: dict[str, object]) -> None:
    with pytest.raises(ToolRefused):
        await _do(tools, "write", **{"content": "x", **arguments} if "path" in arguments else arguments)


async def test_a_command_has_a_time_limit_and_leaves_nothing(tree: WorktreeFiles, tools: Toolbox) -> None:
    command = "sleep 300 & setsid sleep 301 & echo $$ > pid; wait"
    got = await _do(tools, "bash", command=command, timeout=0.3)
    assert got.failed
    assert "longer than 0.3 seconds" in got.text
    assert _sleepers(tree.root) == []


async def test_a_command_that_ends_takes_its_children_with_it(tree: WorktreeFiles, tools: Toolbox) -> None:
    got = await _do(tools, "bash", command="(sleep 300 &) ; echo done")
    assert got.text == "done\n"
    assert _sleepers(tree.root) == []


async def test_a_cancelled_command_is_dead(tree: WorktreeFiles, tools: Toolbox) -> None:
    os.mkfifo(os.path.join(tree.root, "pipe"))
    running = asyncio.create_task(_do(tools, "bash", command="echo > pipe; sleep 300"))
    await asyncio.to_thread(_read, os.path.join(tree.root, "pipe"))
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert _sleepers(tree.root) == []


async def test_output_is_capped_in_the_middle(tools: Toolbox) -> None:
    got = await _do(tools, "bash", command="seq 1 200000")
    assert len(got.text) < 31_000
    assert got.text.startswith("1\n2\n")
    assert got.text.endswith("200000\n")
    assert "bytes left out" in got.text


async def test_a_failing_command_says_its_code(tools: Toolbox) -> None:
    got = await _do(tools, "bash", command="echo no >&2; exit 3")
    assert (got.failed, got.text) == (True, "no\n\n[exit code 3]")


def test_every_tool_has_a_schema_of_an_object() -> None:
    assert [offer.name for offer in tool_specs()] == ["read", "write", "edit", "glob", "grep", "bash", "plan"]
    assert all(offer.schema["type"] == "object" and offer.description for offer in tool_specs())


def _sleepers(folder: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == folder:
                found.append(int(pid))
        except OSError:
            continue
    return found


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()
