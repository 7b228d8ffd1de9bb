"""What `analyze` may be pointed at, and what it says of anything else."""

import os
import socket
from pathlib import Path

import pytest

from tests.cli.foreign import SEED_LOG, SEED_RESUMED, put, started
from tests.cli.program import Program


def put_features(folder: str, *names: str) -> None:
    """A log for each feature, the first one the oldest."""
    for age, name in enumerate(names):
        path = put(folder, name, "events.jsonl", log=started(feature=name))
        os.utime(path, (1_000_000 + age, 1_000_000 + age))


def features(holdfast: Program, path: str) -> list[str]:
    return [found["feature"] for found in holdfast("analyze", path, "--json").objects]


def test_a_file_of_any_name_is_a_log(holdfast: Program) -> None:
    put(holdfast.cwd, "saved.log", log=SEED_LOG)
    assert features(holdfast, "saved.log") == ["auth-system"]
    assert features(holdfast, os.path.join(holdfast.cwd, "saved.log")) == ["auth-system"]


def test_a_features_folder_means_its_log(holdfast: Program) -> None:
    put_features(holdfast.cwd, "auth")
    assert features(holdfast, "auth") == ["auth"]
    assert features(holdfast, "auth/") == ["auth"]


def test_a_folder_of_features_gives_one_object_each_the_newest_first(holdfast: Program) -> None:
    put_features(os.path.join(holdfast.cwd, ".claude", "progress"), "b-oldest", "c-middle", "a-newest")
    assert features(holdfast, ".claude/progress") == ["a-newest", "c-middle", "b-oldest"]


def test_a_project_means_its_claude_progress(holdfast: Program) -> None:
    put_features(os.path.join(holdfast.cwd, ".claude", "progress"), "auth", "pay")
    assert features(holdfast, ".") == ["pay", "auth"]


def test_a_stray_log_in_a_project_does_not_hide_its_claude_progress(holdfast: Program) -> None:
    put_features(os.path.join(holdfast.cwd, ".claude", "progress"), "auth")
    put_features(holdfast.cwd, "fixtures")
    assert features(holdfast, ".") == ["auth"]


def test_feature_folders_without_a_log_are_named(holdfast: Program) -> None:
    progress = os.path.join(holdfast.cwd, ".claude", "progress")
    put_features(progress, "auth")
    os.makedirs(os.path.join(progress, "pay"))
    found = holdfast("analyze", ".", "--json").objects
    assert [(one["feature"], one["log"]) for one in found] == [
        ("auth", "./.claude/progress/auth/events.jsonl"),
        ("pay", None),
    ]
    assert found[1]["folder"] == "./.claude/progress/pay"
    assert "./.claude/progress/pay has no events.jsonl" in holdfast("analyze", ".").out
    os.unlink(os.path.join(progress, "auth", "events.jsonl"))
    complaint = holdfast("analyze", ".", code=2).complaint
    assert "./.claude/progress/auth, ./.claude/progress/pay" in complaint


def test_several_reports_are_set_apart(holdfast: Program) -> None:
    put_features(os.path.join(holdfast.cwd, ".claude", "progress"), "auth", "pay")
    out = holdfast("analyze", ".").out
    assert out.index('feature "pay"') < out.index('\n\nResume Analysis for feature "auth"')


def test_folders_and_pipes_among_the_features_are_passed_over(holdfast: Program) -> None:
    put_features(holdfast.cwd, "auth")
    os.makedirs(os.path.join(holdfast.cwd, "odd", "events.jsonl"))
    os.mkdir(os.path.join(holdfast.cwd, "pipe"))
    os.mkfifo(os.path.join(holdfast.cwd, "pipe", "events.jsonl"))
    assert features(holdfast, ".") == ["auth"]


def test_a_feature_that_cannot_be_read_does_not_hide_the_others(holdfast: Program) -> None:
    put_features(holdfast.cwd, "auth", "secret", "pay")
    os.chmod(os.path.join(holdfast.cwd, "secret", "events.jsonl"), 0)
    outcome = holdfast("analyze", ".", "--json", unprivileged=True, code=2)
    assert [found["feature"] for found in outcome.objects] == ["pay", "auth"]
    assert outcome.complaint == "./secret/events.jsonl is not readable for this user"


def test_a_path_wins_over_a_run_of_the_same_name(holdfast: Program) -> None:
    put(holdfast.home, "runs", "auth-abc234", "events.jsonl", log=SEED_LOG + SEED_RESUMED)
    put_features(holdfast.cwd, "auth")
    assert features(holdfast, "auth") == ["auth"]


def test_a_symbolic_link_is_followed(holdfast: Program) -> None:
    put(holdfast.cwd, "events.jsonl", log=SEED_LOG)
    os.symlink("events.jsonl", os.path.join(holdfast.cwd, "link"))
    assert features(holdfast, "link") == ["auth-system"]


def test_the_log_is_not_changed(holdfast: Program) -> None:
    path = Path(put(holdfast.cwd, "events.jsonl", log=SEED_LOG + b'{"torn'))
    before = path.stat()
    path.chmod(0o400)
    holdfast("analyze", str(path), unprivileged=True)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert os.listdir(holdfast.cwd) == ["events.jsonl"]
    assert not os.path.exists(holdfast.home), "looking at another tool's log makes no home"


@pytest.mark.parametrize(
    ("path", "code"), [("missing.jsonl", 4), ("nosuch", 4), ("no/such/folder", 2), ("../missing", 2), ("", 4), ("-", 4)]
)
def test_a_path_that_is_not_there_is_named(holdfast: Program, path: str, code: int) -> None:
    """A mere name could be a run's: the code is that of an unknown run."""
    assert holdfast("analyze", path, code=code).complaint.startswith(f"there is no {path!r}; name a log")


def test_verify_says_the_same_of_a_path_and_of_a_mere_name_that_it_is_no_run(holdfast: Program) -> None:
    assert holdfast("verify", "no/such", code=2).complaint.startswith("there is no 'no/such'; name a log")
    assert holdfast("verify", "nobody", code=4).complaint.startswith("there is no run 'nobody'")


@pytest.mark.parametrize("command", ["analyze", "verify"])
def test_a_folder_without_logs_is_bad_input(holdfast: Program, command: str) -> None:
    assert "holds no events.jsonl" in holdfast(command, ".", code=2).complaint


@pytest.mark.parametrize("command", ["analyze", "verify"])
def test_a_pipe_is_bad_input_and_nobody_waits_for_it(holdfast: Program, command: str) -> None:
    os.mkfifo(os.path.join(holdfast.cwd, "pipe"))
    assert "pipe is not a file" in holdfast(command, "pipe", code=2).complaint


def test_a_device_is_bad_input_and_is_not_read(holdfast: Program) -> None:
    assert "/dev/zero is not a file" in holdfast("analyze", "/dev/zero", code=2).complaint


def test_a_socket_is_bad_input(holdfast: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(holdfast.cwd)  # its name must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        assert "socket is not a file" in holdfast("analyze", "socket", code=2).complaint


def test_a_dangling_link_is_bad_input(holdfast: Program) -> None:
    os.symlink("nowhere", os.path.join(holdfast.cwd, "link"))
    assert "'./link'" in holdfast("analyze", "./link", code=2).complaint


@pytest.mark.parametrize("command", ["analyze", "verify"])
def test_a_file_that_may_not_be_read_is_bad_input(holdfast: Program, command: str) -> None:
    os.chmod(put(holdfast.cwd, "events.jsonl", log=SEED_LOG), 0)
    outcome = holdfast(command, "events.jsonl", unprivileged=True, code=2)
    assert outcome.complaint == "events.jsonl is not readable for this user"


def test_a_folder_that_may_not_be_read_is_bad_input(holdfast: Program) -> None:
    put_features(holdfast.cwd, "auth")
    os.chmod(os.path.join(holdfast.cwd, "auth"), 0)
    outcome = holdfast("analyze", "auth", unprivileged=True, code=2)
    os.chmod(os.path.join(holdfast.cwd, "auth"), 0o700)
    assert outcome.complaint == "auth is not readable for this user"
