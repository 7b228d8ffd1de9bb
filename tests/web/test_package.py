"""The page is in what is installed: a source distribution, a wheel made from that, an environment elsewhere."""

import os
import re
from pathlib import Path

import pytest

from scripts.first_hour import install
from tests.web.server import Server
from web.build import is_current


def test_installed_server_serves_the_page(tmp_path: Path) -> None:
    if not is_current():
        pytest.skip("NO BUNDLE: the page of the package is not tested; build it with: make web")
    programs = install(os.fspath(tmp_path), from_sdist=True)
    assert len([*tmp_path.glob("dist/*.tar.gz")]) == 1
    home = tmp_path / "home"
    home.mkdir()
    Path(f"{home}.config.toml").touch()
    program = (os.path.join(programs, "holdfast"),)
    with Server(os.fspath(home), "--no-watch", page=True, program=program) as server:
        page = server.send("GET", "/", {})
        assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assets = re.findall(r'(?:src|href)="(/[^"]+\.(?:js|css))"', page.body.decode())
        assert assets
        for path in assets:
            asset = server.send("GET", path, {})
            assert asset.status == 200
            assert "immutable" in asset.headers["Cache-Control"]
        assert server.send("GET", "/runs/some-run/plan", {}).body == page.body
        assert server.get("/runs").json["runs"] == []
        for path in ("/../../etc/passwd", "/..%2f..%2f..%2fetc%2fpasswd", "//etc/passwd", "/assets/../../access.py"):
            assert server.send("GET", path, {}).body in (page.body, b"not found\n")
