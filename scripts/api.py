"""Writes what is made from the endpoints of `holdfast serve`: docs/openapi.json, and the tables in docs/api.md.

.venv/bin/python scripts/api.py            write them
.venv/bin/python scripts/api.py --check    exit 1 when one is not what would be written
"""

import json
import os
import sys

from holdfast.app.web.openapi import markdown, openapi

_ROOT = os.path.join(os.path.dirname(__file__), "..")
SCHEMA = os.path.join(_ROOT, "docs", "openapi.json")
DOCS = os.path.join(_ROOT, "docs", "api.md")
_BEGIN = "<!-- made by scripts/api.py -->\n"


def made() -> dict[str, str]:
    """What each file should be."""
    prose, mark, _ = _content(DOCS).partition(_BEGIN)
    assert mark, f"{DOCS} has no line {_BEGIN!r}"
    document = openapi()
    return {
        SCHEMA: json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        DOCS: f"{prose}{_BEGIN}\n{markdown(document)}",
    }


def stale() -> list[str]:
    return [os.path.relpath(file, _ROOT) for file, text in made().items() if _content(file) != text]


def _content(file: str) -> str:
    if not os.path.exists(file):
        return ""
    with open(file, encoding="utf-8") as source:
        return source.read()


def main() -> int:
    if "--check" in sys.argv[1:]:
        for file in stale():
            print(f"{file} is stale: run scripts/api.py", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in made().items():
        with open(path, "w", encoding="utf-8") as target:
            target.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
