"""Every relative link of the README and of docs/ leads to a file, and to a heading of it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for target, anchor in _LINK.findall(page.read_text())
        if not _exists(page, target, anchor)
    ]
    assert broken == []


def _exists(page: Path, target: str, anchor: str) -> bool:
    place = (page.parent / target) if target else page
    return place.exists() and (not anchor or anchor in _anchors(place))


def _anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
