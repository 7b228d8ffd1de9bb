"""Files that go with a message of a chat: chosen, pasted, dropped, taken back."""

from pathlib import Path

from playwright.sync_api import expect

from tests.support.showcase import Showcase, wait_until
from tests.web.page.rows import events
from tests.web.page.tabs import Tabs
from tests.web.server import Server

# As a person does it who pastes or drops a file.
_GIVE = """(element, [kind, name]) => {
  const data = new DataTransfer();
  data.items.add(new File([name], name, {type: 'text/plain'}));
  const how = {bubbles: true, cancelable: true};
  const event = kind === 'paste' ? new ClipboardEvent('paste', {...how, clipboardData: data})
    : new DragEvent('drop', {...how, dataTransfer: data});
  element.dispatchEvent(event);
}"""


def test_files_are_chosen_pasted_dropped_and_sent_with_the_message(
    shared: Showcase, server: Server, tabs: Tabs, tmp_path: Path
) -> None:
    book = shared.book("reader", {"when": "Read these", "steps": [{"say": "I have read them."}]})
    run = shared.detach("Hello", book, "--workflow", "chat")
    page = tabs.open(server, f"/runs/{run}")
    (tmp_path / "chosen.txt").write_text("chosen", encoding="utf-8")
    page.get_by_label("Files to attach").set_input_files(tmp_path / "chosen.txt")
    composer = page.get_by_role("textbox", name="Message to")
    for kind, name in (("paste", "pasted.txt"), ("drop", "dropped.txt"), ("drop", "unwanted.txt")):
        composer.evaluate(_GIVE, [kind, name])
    files = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    for name in ("chosen.txt", "pasted.txt", "dropped.txt", "unwanted.txt"):  # stored: before, it has no button
        expect(page.get_by_role("button", name=f"Remove {name}")).to_be_visible()
    expect(files).to_have_count(4)
    page.get_by_role("button", name="Remove unwanted.txt").click()
    page.reload()
    expect(files).to_have_count(3)
    composer.fill("Read these")
    composer.press("Enter")
    expect(page.get_by_text("I have read them.")).to_be_visible()
    expect(files).to_have_count(0)
    expect(page.get_by_role("region", name="Messages").get_by_text("dropped.txt").first).to_be_visible()
    wait_until(lambda: bool(events(shared, run, "prompt.files_sent")))
    (sent,) = events(shared, run, "prompt.files_sent")
    assert sorted(file["name"] for file in sent["sent"]) == ["chosen.txt", "dropped.txt", "pasted.txt"]
