"""Git runs programs. Those that a confined agent can write run where the agent does, and still do their work."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.runtimes.hostile import CANARY, Attack
from tests.runtimes.test_confined_checks import writes
from tests.support.cli_stage import BLOCKED, EVALUATE, SUBMIT, alive, killed, worker
from tests.support.wait import until


def commit(attack: Attack, name: str) -> None:
    attack.stage.project.git("add", "-A")
    attack.stage.project.git("commit", "-qm", name)


def program(attack: Attack, path: str, *lines: str) -> None:
    """A program in the user's repository."""
    whole = Path(attack.stage.project.path, path)
    whole.parent.mkdir(parents=True, exist_ok=True)
    whole.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    whole.chmod(0o755)


def test_config_of_a_nested_repository_runs_nothing_outside(attack: Attack) -> None:
    """At the place of a submodule the agent makes a repository whose config names programs for `git status`."""
    project = attack.stage.project
    head = project.git("rev-parse", "HEAD")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    project.git("commit", "-qm", "a submodule")
    plant = (
        "cd sub && git init -q && git config user.email a@b && git config user.name a && echo x > f && git add f "
        "&& git commit -qm x && echo y > f && touch -d '2 days ago' f && mkdir -p .git/info "
        "&& echo '* filter=evil' > .git/info/attributes && chmod +x ../evil "
        '&& git config filter.evil.clean "$PWD/../evil; cat" && git config core.fsmonitor "$PWD/../evil"'
    )
    evil = f"#!/bin/sh\n{attack.theft} >&2\n"
    turn = writes({"evil": evil})
    turn["steps"].insert(-1, {"run": plant})
    run = attack.run(turn, code=1)
    attack.stage.holdfast("diff", run, "T-1", env=attack.environment)
    attack.stage.holdfast("reset", run, "-y", env=attack.environment, code=5)  # the repository holds unpushed work
    assert not os.path.exists(attack.marker)


@pytest.mark.parametrize(("branch", "advice"), [("own", "--abort"), ("main", "--quit")])
def test_planted_rebase_is_not_to_be_continued(attack: Attack, branch: str, advice: str) -> None:
    """Continued, it runs its `exec` lines as the user. Aborted, it moves the branch that it names."""
    name = "$(git symbolic-ref HEAD)" if branch == "own" else f"refs/heads/{branch}"
    plant = (
        'git add -A && git commit -qm mine && cd "$(git rev-parse --git-dir)" && mkdir rebase-merge && cd rebase-merge '
        f"&& echo {name} > head-name && git rev-parse HEAD > orig-head && git rev-parse HEAD > onto "
        f"&& echo exec touch {attack.marker} > git-rebase-todo && touch interactive && touch -d 2099-01-01 head-name"
    )
    stage, turn = attack.stage, writes({"a.txt": "mine\n"})
    turn["steps"][1:] = [{"run": plant}, BLOCKED]
    options = (*attack.options(stage.book(turn)), "--set", "runtime.commits=true")
    before = stage.project.git("rev-parse", "main")
    run = stage.run(stage.tasks("T-1"), "--workflow", "loop", *options, env=attack.environment, code=1)
    told = stage.holdfast("resume", run, "--on-issue", "retry", env=attack.environment, code=6).err
    assert (f"git rebase {advice}" in told, "--continue" in told) == (True, False)
    stage.project.git("rebase", advice, at=os.path.join(stage.home_of(run), "tasks", "T-1"))
    assert stage.project.git("rev-parse", "main") == before
    assert not os.path.exists(attack.marker)


def test_planted_hook_runs_confined_and_stages_files(attack: Attack) -> None:
    """As with husky: the folder of the hooks is in the worktree."""
    attack.stage.project.git("config", "core.hooksPath", ".husky")
    program(attack, ".husky/pre-commit", "true")
    commit(attack, "hooks")
    hook = f"#!/bin/sh\n{attack.theft} > seen.txt\ngit add seen.txt\n"
    run = attack.run(writes({".husky/pre-commit": hook}))
    assert attack.stage.states(run) == {"T-1": "COMPLETE"}
    assert attack.stage.file(run, "seen.txt") == "confined"


def test_hook_cannot_change_the_repository(attack: Attack) -> None:
    """It has a copy of its own: what it does to config, branches and objects there is gone with it."""
    attack.stage.project.git("config", "core.hooksPath", ".husky")
    program(attack, ".husky/pre-commit", "true")
    commit(attack, "hooks")
    project = attack.stage.project
    before = project.git("rev-parse", "HEAD"), Path(project.path, ".git/config").read_text()
    hook = (
        "#!/bin/sh\ngit config core.fsmonitor /evil\ngit update-ref -d refs/heads/main\n"
        f"rm -rf {project.path}/.git/objects/* $(git rev-parse --git-common-dir)/objects/*\n"
        f"echo x > {project.path}/.git/hooks/post-merge\nexit 0\n"
    )
    run = attack.run(writes({".husky/pre-commit": hook, "a.txt": "a\n"}))
    assert (project.git("rev-parse", "HEAD"), Path(project.path, ".git/config").read_text()) == before
    project.git("fsck", "--full")
    assert not Path(project.path, ".git/hooks/post-merge").exists()
    assert attack.stage.data(run, "effect.intended")


def test_killed_during_a_hook_nothing_of_it_is_left_for_the_next_session(attack: Attack) -> None:
    """The first one hangs, with a daemon beside it that has no environment."""
    hang = "test -e second || { touch second; (setsid env -i sleep 3600 &); sleep 3600; }"
    program(attack, ".git/hooks/pre-commit", hang)
    stage = attack.stage
    process = stage.start("run", "do it", *attack.options(stage.book(writes({"a.txt": "a\n"}))), env=attack.environment)
    asyncio.run(until(lambda: bool(list(Path(stage.home).rglob("second")))))
    killed(process)
    run = stage.only_run()
    stage.resume(run, env=attack.environment)
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert alive(stage) == []
    assert list(Path(stage.home_of(run)).glob("trash-*")) == []


def test_hooks_of_the_user_do_their_work_inside(attack: Attack) -> None:
    """One formats and stages, one changes the message, one refuses what is wrong."""
    program(
        attack,
        ".git/hooks/pre-commit",
        "grep -q bad a.txt && { echo a.txt is bad; exit 1; }",
        f"({attack.theft}) > tidy.txt; git add tidy.txt; git stash list; git stash create >/dev/null; exit 0",
    )
    program(attack, ".git/hooks/commit-msg", 'echo "Reviewed-by: hook" >> "$1"')
    run = attack.run(
        writes({"a.txt": "bad\n"}),
        {"when": "a.txt is bad", "steps": [{"write": {"path": "a.txt", "text": "good\n"}}, {"say": "done"}]},
    )
    assert attack.stage.states(run) == {"T-1": "COMPLETE"}
    assert attack.stage.file(run, "tidy.txt") == "confined"
    assert "Reviewed-by: hook" in attack.stage.project.git("log", "-5", "--format=%B", f"holdfast/{run}/main")


def test_planted_filter_runs_confined(attack: Attack) -> None:
    """The user's config names a program in the repository, and the agent writes another in its place."""
    project = attack.stage.project
    project.git("config", "filter.tidy.clean", "./tidy %f")
    project.git("config", "filter.tidy.smudge", "./tidy %f")
    program(attack, "tidy", "cat")
    Path(project.path, ".gitattributes").write_text("*.txt filter=tidy\n")
    commit(attack, "a filter")
    turn = writes({"tidy": f"#!/bin/sh\n{attack.theft}\n", "a b.txt": "text\n"})
    run = attack.run(turn)
    assert attack.stage.project.git("show", f"holdfast/{run}/main:a b.txt") == "confined"


def test_planted_merge_driver_runs_confined(attack: Attack) -> None:
    """Two tasks change one file. The second also writes the program that is to merge such files."""
    project, stage = attack.stage.project, attack.stage
    project.git("config", "merge.tidy.driver", "./tidy %O %A %B %P")
    program(attack, "tidy", "exit 1")
    Path(project.path, ".gitattributes").write_text("*.txt merge=tidy\n")
    Path(project.path, "c.txt").write_text("old\n")
    commit(attack, "a driver")
    evil = f'#!/bin/sh\n({attack.theft}) > "$2"\n'
    agent = stage.book(
        worker({"write": {"path": "c.txt", "text": "one\n"}}, SUBMIT, task="T-1"),
        worker(
            {"write": {"path": "tidy", "text": evil}},
            {"write": {"path": "c.txt", "text": "two\n"}},
            SUBMIT,
            task="T-2",
        ),
        {"when": "conflict", "steps": [SUBMIT]},
        EVALUATE,
    )
    options = attack.options(agent)
    run = stage.run(stage.tasks("T-1", "T-2"), "--workflow", "waves", *options, env=attack.environment)
    attack.must_have_failed(run)
    assert stage.file(run, "c.txt") == "confined"


def test_filter_that_keeps_files_in_the_repository_still_does(attack: Attack) -> None:
    """As Git LFS does: the content goes to a store in `.git`, and a pointer is committed."""
    project = attack.stage.project
    store = os.path.join(project.path, ".git", "lfs")
    os.makedirs(store)
    keep = f'f=$(mktemp); cat > "$f"; n=$(sha256sum < "$f" | cut -c1-64); cp "$f" {store}/"$n"; echo "pointer $n"'
    project.git("config", "filter.lfs.clean", keep)
    project.git("config", "filter.lfs.smudge", f'read -r word n; cat {store}/"$n"')
    project.git("config", "filter.lfs.required", "true")
    Path(project.path, ".gitattributes").write_text("*.bin filter=lfs\n")
    commit(attack, "lfs")
    run = attack.run(writes({"big.bin": "large\n"}))
    pointer = project.git("show", f"holdfast/{run}/main:big.bin")
    assert pointer.startswith("pointer ")
    assert Path(store, pointer.split()[1]).read_text() == "large\n"
    attack.stage.holdfast("merge", run, env=attack.environment)
    assert Path(project.path, "big.bin").read_text() == "large\n"


def test_merge_that_the_user_asks_for_runs_hooks_as_the_user(attack: Attack) -> None:
    run = attack.run(writes({"a.txt": "a\n"}))
    seen = Path(attack.stage.folder, "seen")
    key = os.path.join(attack.user, ".ssh", "id_ed25519")
    program(attack, ".git/hooks/post-merge", f"cat {key} > {seen}")
    attack.stage.holdfast("merge", run, env=attack.environment)
    assert seen.read_text() == CANARY


def test_no_program_that_the_config_names_in_the_worktree_runs_outside(attack: Attack) -> None:
    """The user's config and environment name programs by relative paths, and the agent writes them."""
    stage, project = attack.stage, attack.stage.project
    remote = project.git("remote", "get-url", "origin")
    for name in ("diff.external", "diff.evil.textconv", "diff.evil.command", "core.editor", "sequence.editor"):
        project.git("config", name, "./evil")
    for name in ("core.pager", "core.sshCommand", "core.askPass", "core.fsmonitor", "core.gitProxy"):
        project.git("config", name, "./evil")
    for name in ("alias.status", "alias.diff", "alias.commit", "credential.helper", "trailer.evil.command"):
        project.git("config", name, "!./evil")
    project.git("config", "include.path", "../team.gitconfig")  # of the user's checkout, not of a worktree
    project.git("config", "core.hooksPath", ".husky")
    evil = f"#!/bin/sh\n{attack.theft} >&2\nexit 0\n"
    hooks = {f".husky/{name}": evil for name in ("pre-push", "reference-transaction", "post-index-change")}
    team = '[filter "evil"]\n\tclean = ./evil\n\trequired = true\n[core]\n\tfsmonitor = ./evil\n'
    files = {"team.gitconfig": team, ".gitattributes": "* diff=evil filter=evil\n", "a.txt": "changed\n"}
    turn = writes({"evil": evil, **hooks, **files})
    turn["steps"].insert(-1, {"run": "chmod +x evil .husky/*"})
    named = ("GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_ASKPASS", "GIT_SSH_COMMAND")
    environment = {**attack.environment, **dict.fromkeys(named, "./evil"), "GIT_PROXY_COMMAND": "./evil"}
    run = stage.run("do it", *attack.options(stage.book(turn)), env=environment)
    attack.must_have_failed(run)
    assert "changed" in stage.holdfast("diff", run, env=environment).out
    stage.holdfast("push", run, env=environment)
    assert "changed" in project.git("show", f"holdfast/{run}/main:a.txt", at=remote)
    attack.must_have_failed(run)


_OWN = '"$(git rev-parse --git-dir)"'
_COMMON = '"$(git rev-parse --git-common-dir)"'
_BRANCH = '"$(git symbolic-ref HEAD)"'


@pytest.mark.parametrize(
    "plant",
    [
        f"ln -sf {{marker}} {_OWN}/COMMIT_EDITMSG",
        f"rm -f {_COMMON}/logs/{_BRANCH}; ln -s {{marker}} {_COMMON}/logs/{_BRANCH}",
        f"echo ref: refs/heads/main > {_COMMON}/{_BRANCH}",
    ],
    ids=["message", "journal", "branch"],
)
def test_links_in_the_git_folder_lead_no_write_outside(attack: Attack, plant: str) -> None:
    """An agent that may commit can write to its own git folder, to its branch, and to their journals."""
    project, turn = attack.stage.project, writes({"a.txt": "changed\n"})
    before = project.git("rev-parse", "main")
    turn["steps"].insert(-1, {"run": f"{plant.format(marker=attack.marker)}; true"})
    agent = attack.stage.book(turn)
    options = (*attack.options(agent), "--set", "runtime.commits=true")
    with attack.stage.holdfast.start("run", "do it", *options, env=attack.environment) as process:
        process.communicate()
    run = attack.stage.only_run()
    attack.must_have_failed(run)
    assert project.git("rev-parse", "main") == before
    with attack.stage.holdfast.start("reset", run, "-y", env=attack.environment) as process:
        process.communicate()
    assert project.git("rev-parse", "main") == before
    assert not os.path.exists(attack.marker)
