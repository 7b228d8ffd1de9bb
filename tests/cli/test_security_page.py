"""The threat model names tests: each of them is there."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (_ROOT / "docs" / "security.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "name"), _NAMED)
def test_every_test_that_the_threat_model_names_exists(file: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (_ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_attack_has_a_test() -> None:
    rows = [line for line in (_ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines() if "::" in line]
    assert len(_NAMED) >= len(rows) > 20
    assert "docs/security.md" in (_ROOT / "README.md").read_text(encoding="utf-8")
