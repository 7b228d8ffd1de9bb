"""The terminals of a run: a shell in the worktree."""

import re

from playwright.sync_api import expect

from tests.support.showcase import WORKER, Showcase
from tests.web.page.tabs import Tabs
from tests.web.server import Server


def test_shell_in_the_worktree_is_there_again_after_a_reload(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """It runs where the run works; its screen is sent again to a page that comes back."""
    run = shared.asking("Look at my shell", name="shell")
    page = tabs.open(server, f"/runs/{run}/terminal")
    choice = page.get_by_role("combobox", name="Terminal")
    shell = choice.get_by_role("option").filter(has_text=re.compile("shell", re.IGNORECASE)).first
    choice.select_option(shell.get_attribute("value"))
    screen = page.locator(".xterm-accessibility")
    expect(page.get_by_role("status").filter(has_text="shell")).to_be_visible()
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("ls; echo answer-$((6*7))\n")
    expect(screen).to_contain_text("answer-42")
    expect(screen).to_contain_text("README.md")
    page.reload()
    expect(screen).to_contain_text("answer-42")
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type("echo again-$((6*8))\n")
    expect(screen).to_contain_text("again-48")


def test_commands_of_agents_are_shown_with_their_output(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """Only commands, the newest first; one that comes while the page is open is added."""
    gate = shared.folder / "commands"

    def ran(command: str, output: str) -> dict[str, object]:
        return {
            "tool": {
                "title": command,
                "kind": "execute",
                "input": {"command": command},
                "content": [output],
                "status": "completed",
            }
        }

    steps = [
        ran("make first", "built one"),
        {"tool": {"title": "a look around", "kind": "read"}},
        ran("make second", "built two"),
        {"wait_for": str(gate)},
        ran("make third", "built three"),
    ]
    run = shared.detach("Run commands", shared.book("commands-book", {"when": WORKER, "steps": steps}))
    page = tabs.open(server, f"/runs/{run}/terminal")
    commands = page.get_by_role("region", name="Commands of agents").get_by_role("listitem")
    expect(commands).to_have_count(2)
    gate.touch()
    expect(commands).to_have_count(3)
    for command, words in zip(commands.all(), ("three", "two", "one"), strict=True):
        expect(command).to_contain_text(f"built {words}")
    commands.first.get_by_role("button", name="make third").click()
    expect(commands.first).not_to_contain_text("built three")
