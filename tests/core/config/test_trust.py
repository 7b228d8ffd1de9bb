"""What of a project file holds before anybody trusts it."""

import tomllib

import msgspec
import pytest

from holdfast.core.config.settings import Caps, ResumePolicy, Settings
from holdfast.core.config.toml_lines import format_toml_path
from holdfast.core.config.trust import split_by_trust
from holdfast.core.config.validation import validate_value

BELOW = Settings(
    parallel=4, reviewers=1, caps=Caps(iterations=8, dollars=20.0), resume=ResumePolicy(auto=False, deaths=3)
)


def guarded(text: str) -> list[str]:
    table = validate_value(tomllib.loads(text), Settings, require_all=False)
    return [format_toml_path(path) for path in split_by_trust(table, BELOW).guarded]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hooks.pre_tool = ['x']", ["hooks"]),
        ("agents.claude.command = 'x'", ["agents"]),
        ("agents.claude.environment.PATH = '/x'", ["agents"]),
        ("agents.claude.secrets = ['AWS_SECRET_ACCESS_KEY']", ["agents"]),
        ("validators.commands.x.command = 'x'", ["validators.commands"]),
        ("worktree.setup = ['x']", ["worktree"]),
        ("worktree.copy = ['.env']", ["worktree"]),
        ("worktree.link = ['node_modules']\nworktree.timeout = 5", ["worktree"]),
        ("permissions.policy = 'allow-all'", ["permissions"]),
        ("approvals = 'given'\npublish = 'pr'", ["approvals", "publish"]),
        ("runtime.kind = 'local'", ["runtime"]),
        ("serve.editor = 'rm'", ["serve"]),
        ("runtime.writable = ['~']", ["runtime"]),
        ("roles.coder.runtime.network = true", ["roles.coder.runtime"]),
        ("agent = 'playbook:evil.yaml'", ["agent"]),
        ("agent = 'claude --yes-to-all'", ["agent"]),
        ("agent = ''", ["agent"]),
        ("roles.coder.agent = 'playbook:x'", ["roles.coder.agent"]),
        ("workflow = './flow.yaml'", ["workflow"]),
        ("workflow = 'flow.yaml'", ["workflow"]),
        ("caps.iterations = 9", ["caps.iterations"]),
        ("caps.dollars = 20.5", ["caps.dollars"]),
        ("parallel = 5", ["parallel"]),
        ("reviewers = 2", ["reviewers"]),
        ("resume.auto = true", ["resume.auto"]),
        ("resume.deaths = 4", ["resume.deaths"]),
        ("memory.total = 40_001", ["memory.total"]),
        ("quota.back_off = 0", ["quota"]),
        ("outage.wait = '1d'", ["outage"]),
        ("disk.reserve = 0", ["disk"]),
        ("cluster.engine = 'temporal://elsewhere:7233'", ["cluster"]),
        ("notify.theirs.command = 'x'", ["notify"]),
        ("telemetry.endpoint = 'http://theirs'", ["telemetry"]),
        ("prices.opus = {input = 0, output = 0}", ["prices"]),
        ("roles.coder.fallback = ['codex', 'playbook:x']", ["roles.coder.fallback"]),
    ],
)
def test_what_runs_widens_or_spends_waits_for_trust(text: str, names: list[str]) -> None:
    assert guarded(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "agent = 'codex'",
        "workflow = 'loop'",
        "roles.coder = {agent = 'codex', model = 'x y:z'}",
        "roles.coder.fallback = ['codex', 'gemini']",
        "caps = {iterations = 8, dollars = 0.5, tokens = 9, wall_clock = '1h'}",
        "budgets.day_dollars = 0.5",
        "parallel = 1",
        "resume = {auto = false, deaths = 1, on_issue = 'go on'}",
        "validators = {detect = false, timeout = 5}",
        "after_interruption = 'ask'",
        "memory.channel = 5",
        "chat.idle = '1h'",
    ],
)
def test_a_choice_among_what_there_is_and_a_lower_limit_hold_at_once(text: str) -> None:
    table = validate_value(tomllib.loads(text), Settings, require_all=False)
    assert split_by_trust(table, BELOW) == (table, {})


def test_the_rest_of_a_file_holds() -> None:
    table = tomllib.loads("agent = 'codex'\nroles.coder = {model = 'm', runtime = {kind = 'local'}}\nhooks.notify = []")
    found = split_by_trust(table, BELOW)
    assert found.unguarded == {"agent": "codex", "roles": {"coder": {"model": "m"}}}
    assert found.guarded == {("roles", "coder", "runtime"): {"kind": "local"}, ("hooks",): {"notify": []}}


def test_each_setting_was_thought_about() -> None:
    """A new one must be put into a test above before it is added here."""
    assert {field.name for field in msgspec.structs.fields(Settings)} == {
        *("agent", "model", "workflow", "parallel", "after_interruption", "roles", "caps", "validators"),
        *("permissions", "hooks", "agents", "runtime", "resume", "memory", "approvals", "publish", "reviewers", "chat"),
        *("worktree", "serve", "quota", "outage", "disk", "budgets", "prices", "notify", "retention"),
        *("telemetry", "store", "cluster"),
    }
