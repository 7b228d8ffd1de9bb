"""Every crash point there is, is one at which somebody is killed: in a run of a scenario, or by the test that is named.

What the short run passes is recorded here; of the longer ones `make torture` holds these tables to be true.
"""

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import holdfast
from holdfast.leaf.failpoints import POINTS
from tests.crash.test_crash_anywhere import singles
from tests.support.crash_suite.suite import FailpointSuite, FailpointSuites

TESTS = Path(__file__).parents[1]


def both_sides(*names: str) -> frozenset[str]:
    return frozenset(f"{name}.{side}" for name in names for side in ("before", "after"))


# Of the longer runs, what none before it comes by.
LONGER = {
    "loop": both_sides("mcp.call", "validator.run", "baseline.check", "worktree.setup"),
    "waves": both_sides("effect.commit.failed", "effect.merge.conflicts"),
    "again": both_sides("effect.commit.unwind"),
    "pipeline": both_sides("artifact.write"),
    "grand": both_sides("effect.push", "effect.pull_request", "effect.snapshot.restore"),
}
ELSEWHERE = {
    "crash/test_bad_company.py": both_sides("lost.mend") | {"lost.mend.set-back"},
    "crash/test_commands_killed.py": both_sides("effect.merge.into", "effect.refs.drop"),
    "crash/test_crash_anywhere.py": both_sides("effect.settle"),
    "crash/test_meddling_with_commits.py": both_sides("effect.branch.restore"),
    "crash/test_moving_killed.py": both_sides(
        "cluster.epochs",
        "cluster.epochs.forget",
        "cluster.push",
        "cluster.seen",
        "effect.cluster.drop",
        "effect.cluster.take_over",
        "machine.name",
        "mirror.clone",
    ),
    "cluster/test_killed.py": both_sides("cluster.submit", "worker.session"),
    "store/test_saved_files.py": both_sides("run.file") | {"run.file.torn"},
    "store/postgres/test_killed.py": both_sides(
        "postgres.commit",
        "postgres.create",
        "postgres.discard",
        "postgres.file",
        "postgres.limit.clear",
        "postgres.limit.put",
        "postgres.own",
        "postgres.publish",
        "postgres.put",
        "postgres.redact",
        "postgres.release",
        "postgres.snapshot",
        "postgres.spending",
        "postgres.worker.beat",
        "postgres.worker.drain",
    ),
    "agents/builtin/test_killed_anywhere.py": both_sides(
        "builtin.ask", "builtin.mcp", "builtin.mcp.spawn", "builtin.repair", "builtin.save", "builtin.shell"
    )
    | {"builtin.save.torn"},
    "agents/test_tmux_notes.py": both_sides("tmux.note"),
    "cli/test_adopt.py": both_sides("adopt.log", "adopt.refs", "stage.note", "stage.publish"),
    "cli/test_chat_files.py": both_sides("attachment.write"),
    "cli/test_import.py": both_sides("bundle.write", "import.files", "import.refs"),
    "cli/test_init.py": both_sides("config.edit"),
    "cli/test_watch_install.py": both_sides("watch.unit"),
    "web/test_token.py": both_sides("serve.token"),
    "cli/test_notify.py": both_sides("notify.send", "notify.save") | {"notify.save.torn"},
    "cli/test_preferences.py": both_sides("preference.decide", "preference.mark"),
    "cli/test_prune.py": both_sides(
        "log.compress", "log.compress.delete_plain", "log.expand", "log.expand.delete_compressed", "tombstone.write"
    )
    | {"log.compress.torn", "log.expand.torn"},
    "cli/test_reset.py": both_sides("run.discard"),
    "cli/test_fork.py": both_sides("run.fork", "effect.refs.keep"),
    "cli/test_rewind.py": both_sides("run.rewind", "rewind.finish", "effect.worktree.rewind")
    | {"worktree.rewind.saved", "worktree.rewind.moved"},
    "cli/test_resume_choice.py": both_sides("resume.choice"),
    "cli/test_run_budgets.py": both_sides("spending.save") | {"spending.save.torn"},
    "cli/test_run_limits.py": both_sides("quota.save") | {"quota.save.torn"},
    "cli/test_run_branches.py": both_sides("effect.branch.take_over", "effect.worktree.link")
    | {"branch.take-over.moved", "worktree.link.entered", "worktree.link.set-aside"},
    "cli/test_run_placeholders.py": frozenset({"commit.unwind.kept"}),
    "cli/test_run_prepared.py": both_sides("worktree.supply"),
    "cli/test_run_trees.py": frozenset({"commit.compared"}),
    "cli/test_run_hooks.py": both_sides("hook.run"),
    "cli/test_merge_at_once.py": {"merge.into.merged"},
    "cli/test_merge_checked_out.py": {"checkout.forward.staged"},
    "cli/test_plan_seeds.py": both_sides("effect.seeds.commit"),
    "cli/test_run_redacted.py": both_sides("inbox.blank"),
    "cli/test_run_starting.py": both_sides("container.note", "runner.detach", "terminal.create"),
    "cli/test_run_tmux.py": both_sides("tmux.place"),
    "engine/commands/test_interview.py": both_sides("run.prepare"),
    "engine/config/test_edit.py": both_sides("config.change"),
    "runtimes/test_forgery.py": both_sides("report.move"),
}


def all_points() -> set[str]:
    """With whoever has one loaded."""
    for module in walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return set(POINTS)


async def struck(suite: FailpointSuite, name: str) -> set[str]:
    """The points at which somebody is killed in the runs of a scenario, by the long suite."""
    failpoints = singles(name, await suite.undisturbed())
    return {failpoint.partition(":")[0] for one in failpoints for failpoint in one if failpoint is not None}


async def test_somebody_is_killed_at_every_point(suites: FailpointSuites) -> None:
    """In the short run at each that it passes."""
    points, longer = all_points(), frozenset[str]().union(*LONGER.values(), *ELSEWHERE.values())
    short = {failpoint.partition(":")[0] for failpoint in (await suites("solo").undisturbed()).passes}
    assert points - short - longer == set(), "no test kills anybody there"
    assert longer <= points, "it is told of points that are no more"


@pytest.mark.parametrize("file", ELSEWHERE)
def test_whoever_is_said_to_kill_at_a_point_names_it(file: str) -> None:
    """The point, or its family with a side that is filled in."""
    text = (TESTS / file).read_text()
    families = {point: point.rpartition(".")[0] for point in ELSEWHERE[file]}
    unnamed = {
        point
        for point, family in families.items()
        if not any(words in text for words in (point, f"{family}.{{", f'"{family}"'))
    }
    assert unnamed == set()


@pytest.mark.torture
@pytest.mark.parametrize("name", LONGER)
async def test_the_longer_runs_are_killed_at_the_points_that_they_are_said_to_be(
    suites: FailpointSuites, name: str
) -> None:
    assert await struck(suites(name), name) >= LONGER[name]
