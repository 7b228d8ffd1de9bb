"""The whole way, by mouse and by keyboard: start a run, answer, survive a killed runner, review, merge."""

import re
import subprocess

from playwright.sync_api import Page, expect

from tests.support.showcase import WORKER, Showcase, hang_once, wait_until
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs, is_on_top
from tests.web.server import Server

COMMENT = "Say hello to the whole world"


def agent_for(shared: Showcase, name: str) -> tuple[str, str]:
    """An agent that asks, hangs until it is killed, waits while its work is read, and does what the comments say."""
    gate = shared.folder / f"{name}-read"
    first = [
        {"say": "I look around."},
        {
            "permission": {
                "title": "Run make greeting",
                "kind": "execute",
                "input": {"command": "make greeting"},
                "options": ["allow_once", "reject_once"],
                "allowed": [{"write": {"path": f"{name}.txt", "text": "hello\nagain\n"}}],
            }
        },
        {"tool": "I wait to be killed"},
        hang_once(name),
        {"tool": "waiting for the review"},
        {"wait_for": str(gate)},
    ]
    reviewed = {"when": COMMENT, "steps": [{"append": {"path": f"{name}.txt", "text": "world\n"}}, {"say": "Done so."}]}
    turns = (reviewed, {"when": WORKER, "steps": first})
    return shared.named(name, *turns, sessions={"interrupted": "continue"}), str(gate)


def id_of(page: Page) -> str:
    found = re.search(r"/runs/([^/?]+)", page.url)
    assert found is not None
    return found[1]


def kill_once_allowed(shared: Showcase, page: Page, name: str) -> str:
    expect(page.get_by_text(f"{name}.txt").first).to_be_visible()
    run = id_of(page)
    expect(page.get_by_text("I wait to be killed")).to_be_visible()
    shared.wait_for_hang(name)
    shared.kill_runner(run)
    expect(page.locator("[data-status=interrupted]")).to_be_visible()
    return run


def merged(shared: Showcase, name: str) -> str:
    return subprocess.run(
        ["git", "-C", shared.repository, "show", f"main:{name}.txt"], check=False, capture_output=True, text=True
    ).stdout


def test_whole_flow_by_mouse(shared: Showcase, server: Server, tabs: Tabs) -> None:
    name, gate = agent_for(shared, "mouse")
    page = tabs.open(server)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="New run").click()
    page.get_by_label("Repository", exact=True).fill(shared.repository)
    page.get_by_role("textbox", name="Goal").fill("Write a greeting with the mouse")
    page.get_by_label("Agent", exact=True).select_option(name)
    page.get_by_role("button", name="Start the run").click()

    request = page.get_by_role("region", name="Permission request")
    expect(request).to_contain_text("make greeting")
    assert is_on_top(request.get_by_role("button", name="Allow"))
    request.get_by_role("button", name="Allow").click()
    run = kill_once_allowed(shared, page, name)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("waiting for the review")).to_be_visible()
    expect(page.get_by_role("separator", name="a new session")).to_be_visible()

    page.get_by_role("link", name="Changes").click()
    page.get_by_role("button", name=f"{name}.txt").click()
    page.get_by_role("button", name="Comment on line 1").click()
    page.get_by_role("textbox", name="Comment on line 1").fill(COMMENT)
    page.get_by_role("button", name="Keep the comment").click()
    page.get_by_role("button", name="Mark reviewed").click()
    page.get_by_role("button", name="Send as one message").click()
    page.get_by_role("button", name="Send 1 comment").click()
    expect(page.get_by_text("1 comment sent as one message")).to_be_visible()
    open(gate, "w").close()
    expect(page.locator("[data-status=done]")).to_be_visible()
    wait_until(lambda: any(COMMENT in data["text"] for data in events(shared, run, "message.recorded")))

    page.get_by_role("button", name="Merge…").click()
    page.get_by_role("dialog").get_by_role("button", name="Merge", exact=True).click()
    expect(page.get_by_text(re.compile("[Mm]erged")).first).to_be_visible()
    wait_until(lambda: merged(shared, name) == "hello\nagain\nworld\n")
    expect(page.get_by_label("Where the work is")).to_have_text("merged into main")
    expect(page.get_by_role("button", name="Merge…")).to_have_count(0)
    expect(page.get_by_role("button", name="Archive…")).to_be_visible()


def test_whole_flow_by_keyboard(shared: Showcase, server: Server, tabs: Tabs) -> None:
    """Not one press of the mouse: the keys of the page, the palette, Tab and Enter."""
    name, gate = agent_for(shared, "keyboard")
    page = tabs.open(server)
    keys = page.keyboard
    expect(page.get_by_role("heading", name="Board", exact=True)).to_be_visible()
    keys.press("c")
    expect(page.get_by_role("heading", name="New run", exact=True)).to_be_focused()
    tab_to(page, "Repository")
    keys.press("Control+a")
    keys.type(shared.repository)
    keys.press("Escape")
    tab_to(page, "Goal")
    keys.type("Write a greeting with the keyboard")
    tab_to(page, "Agent")
    choose_by_keys(page, "Agent", name)
    keys.press("Control+Enter")

    expect(page.get_by_role("region", name="Permission request")).to_be_visible()
    keys.press("a")
    run = kill_once_allowed(shared, page, name)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    keys.press("r")
    expect(page.get_by_text("waiting for the review")).to_be_visible()

    keys.press("3")
    expect(page.get_by_role("button", name=f"{name}.txt")).to_be_visible()
    keys.press("j")
    expect(page.get_by_role("button", name="Comment on line 1")).to_be_visible()
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(page.get_by_role("textbox", name="Comment on line 1")).to_be_focused()
    keys.type(COMMENT)
    keys.press("Control+Enter")
    expect(page.get_by_text("1 comment, kept in this browser")).to_be_visible()
    keys.press("v")
    keys.press("s")
    expect(page.get_by_role("textbox", name="What to say first")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_text("1 comment sent as one message")).to_be_visible()
    open(gate, "w").close()
    expect(page.locator("[data-status=done]")).to_be_visible()
    wait_until(lambda: any(COMMENT in data["text"] for data in events(shared, run, "message.recorded")))

    keys.press("Control+k")
    expect(page.get_by_role("combobox", name="Go to a run")).to_be_focused()
    keys.type("merge the run's branch")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Merge the run's branch")
    keys.press("Enter")
    expect(page.get_by_role("dialog", name="Merge the run's branch")).to_be_visible()
    keys.press("Enter")
    wait_until(lambda: merged(shared, name) == "hello\nagain\nworld\n")


def tab_to(page: Page, label: str) -> None:
    """Press Tab until this field has the focus."""
    field = page.get_by_label(label, exact=True)
    for _ in range(60):
        page.keyboard.press("Tab")
        if field.evaluate("field => field === document.activeElement"):
            return
    raise AssertionError(f"Tab never came to {label}")


def choose_by_keys(page: Page, label: str, value: str) -> None:
    """Press the arrow down in this list until it has the value. By its first letters, a slow typist chooses another."""
    field = page.get_by_label(label, exact=True)
    expect(field.locator(f'option[value="{value}"]')).to_have_count(1)
    for _ in range(field.locator("option").count()):
        if field.input_value() == value:
            break
        page.keyboard.press("ArrowDown")
    expect(field).to_have_value(value)
