"""Writes what is made from the settings: the JSON schema that is shipped, and the keys in docs/configuration.md.

Also writes the built-in workflows as JSON, from their YAML files.

.venv/bin/python scripts/configuration.py            write them
.venv/bin/python scripts/configuration.py --check    exit 1 when one is not what would be written
"""

import json
import os
import sys

from holdfast.core.config.settings_docs import markdown_page, settings_schema
from holdfast.workflows.builtin import PARSED_FILE, parse_built_in

_ROOT = os.path.join(os.path.dirname(__file__), "..")
SCHEMA = os.path.join(_ROOT, "src", "holdfast", "core", "config", "settings.schema.json")
DOCS = os.path.join(_ROOT, "docs", "configuration.md")
_BEGIN = "<!-- made by scripts/configuration.py -->\n"


def made() -> dict[str, str]:
    """What each file should be."""
    prose, mark, _ = _content(DOCS).partition(_BEGIN)
    assert mark, f"{DOCS} has no line {_BEGIN!r}"
    return {
        SCHEMA: json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n",
        DOCS: f"{prose}{_BEGIN}\n{markdown_page()}",
        PARSED_FILE: parse_built_in(),
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
            print(f"{file} is stale: run scripts/configuration.py", file=sys.stderr)
        return 1 if stale() else 0
    for path, text in made().items():
        with open(path, "w", encoding="utf-8") as target:
            target.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
