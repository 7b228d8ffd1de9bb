"""Settings are changed on the page: the user's file gets what was typed, and a refused value is not written."""

from pathlib import Path

from playwright.sync_api import expect

from tests.support.showcase import Showcase
from tests.web.page.tabs import Tabs
from tests.web.server import Server


def test_setting_is_refused_changed_and_removed(shared: Showcase, server: Server, tabs: Tabs) -> None:
    file = Path(f"{shared.home}.config.toml")
    before = file.read_text(encoding="utf-8")
    page = tabs.open(server, "/settings")
    page.get_by_role("searchbox", name="Filter the settings").fill("caps.iterations")
    row = page.locator("[data-setting='caps.iterations']")
    expect(row).to_contain_text("built-in")
    row.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog")
    value = dialog.get_by_role("textbox", name="Value")
    value.fill("many")
    dialog.get_by_role("button", name="Save").click()
    expect(value).to_have_attribute("aria-invalid", "true")
    assert file.read_text(encoding="utf-8") == before

    value.fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(row).to_contain_text("7")
    expect(row).not_to_contain_text("built-in")
    assert "iterations = 7" in file.read_text(encoding="utf-8")

    row.get_by_role("button", name="Change").click()
    dialog.get_by_role("button", name="Remove from my file").click()
    expect(row).to_contain_text("built-in")
    assert "iterations" not in file.read_text(encoding="utf-8")
