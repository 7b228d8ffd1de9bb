"""The rows of a list of which only the visible ones are in the document."""

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from holdfast.store.files.layout import LOG, run_folder
from tests.support.showcase import Showcase

# Scrolls from the top to the end, a screen at a time, and notes each row once.
_READ_ALL = """async list => {
  const frames = count => new Promise(done => {
    const step = () => (count-- > 0 ? requestAnimationFrame(step) : done());
    step();
  });
  list.scrollTop = 0;
  await frames(4);
  const found = new Map();
  for (;;) {
    for (const row of list.querySelectorAll('[data-row]')) {
      if (!found.has(row.dataset.row)) found.set(row.dataset.row, row.innerText);
    }
    const before = list.scrollTop;
    list.scrollTop += list.clientHeight / 2;
    await frames(3);
    if (list.scrollTop === before) return [...found.values()];
  }
}"""


def read_all(page: Page, label: str = "Messages") -> list[str]:
    """The text of each row, from the first to the last."""
    rows: list[str] = page.get_by_role("region", name=label).evaluate(_READ_ALL)
    return rows


def numbers(rows: list[str]) -> list[int]:
    """The numbers in square brackets, as agents of these tests count."""
    return [int(each) for row in rows for each in re.findall(r"\[(\d+)\]", row)]


def events(showcase: Showcase, run: str, kind: str) -> list[dict[str, Any]]:
    """The data of all events of this type in the run's log."""
    lines = Path(run_folder(showcase.home, run), LOG).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [event["data"] for event in found if event["type"] == kind]
