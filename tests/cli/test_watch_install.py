"""`watch --install` writes a systemd unit that starts watch at boot; `--uninstall` deletes it."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program, failpoint_environment

ENABLE = "systemctl --user daemon-reload && systemctl --user enable --now holdfast-watch"


class Machine:
    """A user with a home directory, on a machine where systemctl answers as it is told."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.user_home = folder / "user"
        self.programs = folder / "programs"
        self.user_home.mkdir()
        self.programs.mkdir()
        self.unit = self.user_home / ".config/systemd/user/holdfast-watch.service"
        self.env = {"HOME": str(self.user_home), "PATH": str(self.programs)}

    def boot(self, answer: str) -> None:
        systemctl = self.programs / "systemctl"
        systemctl.write_text(f"#!{sys.executable}\nprint({answer!r})\n")
        systemctl.chmod(0o755)


@pytest.fixture
def machine(holdfast: Program, tmp_path: Path) -> Machine:
    machine = Machine(holdfast, tmp_path)
    machine.boot("running")
    return machine


def test_install_writes_a_unit_and_prints_the_commands_that_start_it(machine: Machine) -> None:
    outcome = machine.program("watch", "--install", cold=True, env=machine.env)
    assert outcome.lines[0] == f"wrote {machine.unit}"
    assert f"  {ENABLE}" in outcome.lines
    assert "  loginctl enable-linger" in outcome.lines
    assert not any("restart" in line for line in outcome.lines)
    lines = machine.unit.read_text().splitlines()
    assert f'ExecStart="{sys.executable}" "-P" "-m" "holdfast" "watch"' in lines
    assert f'Environment="PATH={machine.programs}"' in lines
    assert f'Environment="HOLDFAST_HOME={machine.program.home}"' in lines
    assert {"KillMode=process", "Restart=always", "WantedBy=default.target"} <= set(lines)
    assert machine.unit.stat().st_mode & 0o777 == 0o600


def test_unit_without_holdfast_home_names_none(machine: Machine) -> None:
    machine.program("watch", "--install", env={**machine.env, "HOLDFAST_HOME": ""})
    assert "HOLDFAST_HOME" not in machine.unit.read_text()


def test_unit_escapes_what_systemd_would_expand(machine: Machine) -> None:
    machine.program("watch", "--install", env={**machine.env, "XDG_DATA_HOME": '/a b/100%/"c\\d'})
    assert 'Environment="XDG_DATA_HOME=/a b/100%%/\\"c\\\\d"' in machine.unit.read_text().splitlines()


def test_second_install_replaces_the_unit_and_names_the_restart(machine: Machine) -> None:
    machine.program("watch", "--install", env=machine.env)
    outcome = machine.program("watch", "--install", "--json", env={**machine.env, "HOLDFAST_HOME": "/other"})
    assert outcome.object == {
        "unit": str(machine.unit),
        "commands": [ENABLE, "systemctl --user restart holdfast-watch", "loginctl enable-linger"],
    }
    assert 'Environment="HOLDFAST_HOME=/other"' in machine.unit.read_text()


def test_uninstall_deletes_the_unit_and_the_link_that_enables_it(machine: Machine) -> None:
    machine.program("watch", "--install", env=machine.env)
    wants = machine.unit.parent / "default.target.wants"
    wants.mkdir()
    (wants / machine.unit.name).symlink_to(machine.unit)
    outcome = machine.program("watch", "--uninstall", env=machine.env)
    assert outcome.lines[0] == f"deleted {machine.unit}"
    assert "  systemctl --user stop holdfast-watch; systemctl --user daemon-reload" in outcome.lines
    assert [*machine.unit.parent.iterdir()] == [wants]
    assert [*wants.iterdir()] == []
    assert "nothing to uninstall" in machine.program("watch", "--uninstall", code=4, env=machine.env).complaint


def test_unit_of_another_author_is_left_alone(machine: Machine) -> None:
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("[Service]\nExecStart=/bin/true\n")
    for option in ("--install", "--uninstall"):
        refused = machine.program("watch", option, code=2, env=machine.env)
        assert f"{machine.unit} was not written by Holdfast" in refused.complaint
    assert machine.unit.read_text() == "[Service]\nExecStart=/bin/true\n"
    machine.unit.unlink()
    machine.unit.symlink_to("/nowhere")
    machine.program("watch", "--install", code=2, env=machine.env)
    assert os.readlink(machine.unit) == "/nowhere"


@pytest.mark.parametrize("answer", ["offline", None])
def test_without_systemd_it_prints_a_crontab_line_and_writes_nothing(machine: Machine, answer: str | None) -> None:
    machine.boot(answer or "")
    if answer is None:
        (machine.programs / "systemctl").unlink()
    outcome = machine.program("watch", "--install", cold=True, env={**machine.env, "HOLDFAST_HOME": "/a b/100%"})
    (line,) = [line for line in outcome.lines if line.startswith("@reboot ")]
    assert f"HOLDFAST_HOME='/a b/100\\%' {sys.executable} -P -m holdfast watch >> " in line
    assert not (machine.user_home / ".config").exists()


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_install_leaves_the_old_unit_or_the_new_one(machine: Machine, side: str, tmp_path: Path) -> None:
    machine.program("watch", "--install", env=machine.env)
    old = machine.unit.read_text()
    changed = {**machine.env, "HOLDFAST_HOME": "/other"}
    crash = failpoint_environment(str(tmp_path), f"watch.unit.{side}:1")
    machine.program("watch", "--install", code=-signal.SIGKILL, env={**changed, **crash})
    assert (machine.unit.read_text() == old) is (side == "before")
    machine.program("watch", "--install", env=changed)
    assert "/other" in machine.unit.read_text()


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_uninstall_is_finished_by_the_next_one(machine: Machine, side: str, tmp_path: Path) -> None:
    machine.program("watch", "--install", env=machine.env)
    crash = failpoint_environment(str(tmp_path), f"watch.unit.{side}:1")
    machine.program("watch", "--uninstall", code=-signal.SIGKILL, env={**machine.env, **crash})
    assert machine.unit.exists() is (side == "before")
    machine.program("watch", "--uninstall", code=0 if side == "before" else 4, env=machine.env)
    assert not machine.unit.exists()


def test_server_is_installed_with_what_was_chosen(machine: Machine) -> None:
    """Its unit keeps the runs alive when it is restarted, and holds no token; that of watch is another file."""
    chosen = ("--port", "8123", "--allow-host", "holdfast.example.org", "--api-only")
    outcome = machine.program("serve", "--install", *chosen, cold=True, env=machine.env)
    unit = machine.unit.with_name("holdfast-serve.service")
    assert outcome.lines[0] == f"wrote {unit}"
    assert "  systemctl --user daemon-reload && systemctl --user enable --now holdfast-serve" in outcome.lines
    lines = unit.read_text().splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    program = f'ExecStart="{sys.executable}" "-P" "-m" "holdfast" "serve" "--port" "8123" "--bind" "127.0.0.1"'
    assert start == f'{program} "--allow-host" "holdfast.example.org" "--api-only"'
    assert {"KillMode=process", "OOMPolicy=continue"} <= set(lines)
    assert not machine.unit.exists()
    refused = machine.program("serve", "--install", "--bind", "0.0.0.0", code=2, env=machine.env)
    assert "--allow-host" in refused.complaint
    machine.program("serve", "--uninstall", env=machine.env)
    assert not unit.exists()
