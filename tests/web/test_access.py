"""Who gets in, tried from outside."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from html import unescape
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus

from tests.support.wait import until
from tests.web.conftest import RUN
from tests.web.server import Server, receive

JSON = {"Content-Type": "application/json", "X-Holdfast": "1"}


def test_token_is_in_a_file_of_its_user_and_nowhere_else(server: Server) -> None:
    """Not in the arguments, the environment or the redirect file; and only its user can read the files."""
    for name in ("token", "open"):
        path = Path(server.told[name])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for place in ("cmdline", "environ"):
        assert server.token.encode() not in Path(f"/proc/{server.pid}/{place}").read_bytes()
    assert server.token not in Path(server.told["open"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "127.0.0.1.evil.test",
        "127.0.0.1:80.evil.test",
        "localhost.evil.test",
        "local\thost",
        "2130706433",
        "10.0.0.1",
        "",
        "a@127.0.0.1",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/runs", "/open?code=x"])
def test_other_hosts_are_refused(server: Server, host: str, path: str) -> None:
    """A name that somebody else's DNS points here gets nothing, even with the token."""
    assert server.send("GET", path, {**server.bearer, "Host": host}).status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LOCALHOST:1234", "[::1]:80", "127.8.9.1:1"])
def test_loopback_hosts_are_served(server: Server, host: str) -> None:
    assert server.send("GET", "/api/v1/runs", {**server.bearer, "Host": host}).status == 200


def test_a_mistyped_address_of_the_api_is_not_answered_with_the_page(server: Server) -> None:
    for path in ("/api/runs", "/api/v2/runs", "/api/v1/nothing"):
        answer = server.send("GET", path, server.bearer)
        assert (answer.status, answer.json["hint"]) == (404, "docs/api.md lists them")


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer x"}, {"Authorization": "Basic Og=="}, {"Cookie": "holdfast-1=x"}]
)
def test_nothing_is_read_without_token_or_cookie(server: Server, headers: dict[str, str]) -> None:
    answer = server.send("GET", "/api/v1/runs", headers)
    assert answer.status == 403
    assert RUN not in answer.body.decode()
    with pytest.raises(InvalidStatus) as refused, server.live({"Origin": f"http://127.0.0.1:{server.port}", **headers}):
        pass
    assert refused.value.response.status_code == 403


def test_code_signs_one_browser_in(server: Server) -> None:
    """The code works once; the file then has another."""
    first = Path(server.told["open"]).read_text(encoding="utf-8")
    cookie = server.sign_in()
    assert server.send("GET", "/api/v1/runs", {"Cookie": cookie}).status == 200
    path = first.partition("url=")[2].partition('"')[0].partition(f":{server.port}")[2]
    again = server.send("GET", path, {})
    assert again.status == 403
    assert again.headers["Set-Cookie"] is None
    assert server.sign_in() == cookie


def test_sign_in_leads_to_the_page_or_to_a_run_and_nowhere_else(server: Server) -> None:
    page = Path(server.told["open"]).read_text(encoding="utf-8")
    path = page.partition("url=")[2].partition('"')[0].partition(f":{server.port}")[2]
    for run, target in ((RUN, f"/runs/{RUN}"), ("//evil.test", "/"), ('"><script>', "/"), ("", "/")):
        answer = server.send("GET", f"{path}&run={quote(run)}", {})
        assert answer.status == 200
        assert f'content="0;url={target}"' in answer.body.decode()
        assert b"<script" not in answer.body
        page = Path(server.told["open"]).read_text(encoding="utf-8")
        path = page.partition("url=")[2].partition('"')[0].partition(f":{server.port}")[2]


def test_open_makes_a_file_that_leads_to_a_run(server: Server, tmp_path: Path) -> None:
    """Of a server that runs already: the second command opens a browser and ends. No code is in an argument."""
    browser = tmp_path / "xdg-open"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, shutil\nshutil.copy(sys.argv[1], {str(tmp_path / 'opened')!r})\n"
    )
    browser.chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--api-only", "--port", str(server.port), "--open", RUN],
        env={**os.environ, "HOLDFAST_HOME": server.home, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    asyncio.run(until((tmp_path / "opened").exists))
    asyncio.run(until(lambda: "run=" in (tmp_path / "opened").read_text()))
    own = Path(server.told["open"].removesuffix(".html") + "-run.html")
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    path = unescape((tmp_path / "opened").read_text()).partition("url=")[2].partition('"')[0]
    answer = server.send("GET", path.partition(f":{server.port}")[2], {})
    assert (answer.status, f"/runs/{RUN}" in answer.body.decode()) == (200, True)


def test_cookie_is_for_this_server_and_strict(server: Server) -> None:
    page = Path(server.told["open"]).read_text(encoding="utf-8")
    path = page.partition("url=")[2].partition('"')[0].partition(f":{server.port}")[2]
    answer = server.send("GET", path, {})
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"holdfast-{server.port}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert server.token not in cookie
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_cookie_outlives_the_server(home: str, port: int) -> None:
    """A restart, or a crash, signs nobody out; a new token does."""
    os.makedirs(home)
    with Server.start(home, "--no-watch", port=port) as first:
        cookie = first.sign_in()
        first.kill()
    with Server.start(home, "--no-watch", port=port) as second:
        assert second.send("GET", "/api/v1/runs", {"Cookie": cookie}).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "http://127.0.0.1:1", "https://127.0.0.1", "http://localhost", "x"]
)
def test_other_origins_are_refused(server: Server, origin: str) -> None:
    """Also that of another server on this machine: cookies do not tell ports apart."""
    cookie = {"Cookie": server.sign_in(), "Origin": origin}
    assert server.send("GET", "/api/v1/runs", cookie).status == 403
    assert server.send("POST", "/api/v1/digest/seen", {**JSON, **cookie}, b"{}").status == 403
    with pytest.raises(InvalidStatus) as refused, server.live(cookie):
        pass
    assert refused.value.response.status_code == 403


def test_own_origin_is_served(server: Server) -> None:
    cookie = {"Cookie": server.sign_in(), "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.send("POST", "/api/v1/digest/seen", {**JSON, **cookie}, b"{}").status == 200
    with server.live(cookie) as socket:
        assert receive(socket, "hello")


def test_post_without_origin_needs_the_token(server: Server) -> None:
    cookie = {"Cookie": server.sign_in()}
    assert server.send("POST", "/api/v1/digest/seen", {**JSON, **cookie}, b"{}").status == 403
    with pytest.raises(InvalidStatus), server.live(cookie):
        pass


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_form_of_another_page_is_refused(server: Server, kind: str | None) -> None:
    headers = {"Cookie": server.sign_in(), "Origin": f"http://127.0.0.1:{server.port}", "X-Holdfast": "1"}
    given = {**headers, **({"Content-Type": kind} if kind is not None else {})}
    assert server.send("POST", "/api/v1/digest/seen", given, b"{}").status == 415


def test_post_without_own_header_is_refused(server: Server) -> None:
    headers = {**server.bearer, "Content-Type": "application/json"}
    assert server.send("POST", "/api/v1/digest/seen", headers, b"{}").status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_another_site_starts_are_refused(server: Server, site: str) -> None:
    headers = {"Cookie": server.sign_in(), "Sec-Fetch-Site": site}
    assert server.send("GET", "/api/v1/runs", headers).status == 403


def test_every_answer_has_the_headers_that_protect_the_page(server: Server) -> None:
    for path in ("/", "/api/v1/runs", "/api/v1/nothing", "/open"):
        headers = server.send("GET", path, server.bearer).headers
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Server"] is None


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/assets/../../access.py",
        "/%00",
    ],
)
def test_no_path_leaves_the_bundle(server: Server, path: str) -> None:
    answer = server.send("GET", path, {})
    assert answer.status == 404
    assert b"root:" not in answer.body


@pytest.mark.parametrize("path", ["../events.jsonl", "artifacts/../events.jsonl", "/etc/passwd", "artifacts", "\0", ""])
def test_only_documents_are_read(server: Server, path: str) -> None:
    assert server.get(f"/runs/{RUN}/documents?path={quote(path)}").status == 404


def test_new_token_signs_everybody_out(home: str, port: int) -> None:
    os.makedirs(home)
    with Server.start(home, "--no-watch", port=port) as first:
        cookie, old = first.sign_in(), first.bearer
        first.kill()
    token = Path(home, "serve", "token")
    before = token.read_text(encoding="ascii")
    subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--new-token"],
        env={**os.environ, "HOLDFAST_HOME": home},
        check=True,
        capture_output=True,
    )
    assert token.read_text(encoding="ascii") != before
    with Server.start(home, "--no-watch", port=port) as second:
        assert second.send("GET", "/api/v1/runs", {"Cookie": cookie}).status == 403
        assert second.send("GET", "/api/v1/runs", old).status == 403


def test_who_guesses_tokens_through_a_proxy_is_slowed_down(home: str) -> None:
    """And nobody else: neither who has the token, nor this machine."""
    os.makedirs(home)
    with Server.start(home, "--no-watch", "--allow-host", "proxy.test") as server:
        outside, wrong = {"Host": "proxy.test"}, {"Authorization": "Bearer x"}
        statuses = [server.send("GET", "/api/v1/server", {**outside, **wrong}).status for _ in range(25)]
        assert (statuses[0], statuses[-1]) == (403, 429)
        assert server.send("GET", "/api/v1/server", {**outside, **server.bearer}).status == 200
        assert server.send("GET", "/api/v1/server", wrong).status == 403
        page = server.send("GET", "/open?code=x", outside)
        assert page.status == 403


def test_cookie_of_a_proxied_browser_is_secure(home: str) -> None:
    os.makedirs(home)
    with Server.start(home, "--no-watch", "--allow-host", "proxy.test") as server:
        page = Path(server.told["open"]).read_text(encoding="utf-8")
        path = page.partition("url=")[2].partition('"')[0].partition(f":{server.port}")[2]
        cookie = server.send("GET", path, {"Host": "proxy.test"}).headers["Set-Cookie"]
        assert "Secure" in {part.strip() for part in cookie.split(";")}
        headers = {"Host": "proxy.test", "Cookie": cookie.partition(";")[0], "Origin": "https://proxy.test"}
        assert server.send("POST", "/api/v1/digest/seen", {**JSON, **headers}, b"{}").status == 200
        plain = {**headers, "Origin": "http://proxy.test"}
        assert server.send("POST", "/api/v1/digest/seen", {**JSON, **plain}, b"{}").status == 403


@pytest.mark.parametrize("options", [["--bind", "0.0.0.0"], ["--bind", "::"], ["--bind", "name"], ["--port", "x"]])
def test_other_addresses_are_refused_without_a_proxy(home: str, options: list[str]) -> None:
    """One clear line; nothing listens."""
    refused = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--api-only", *options],
        env={**os.environ, "HOLDFAST_HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr


def test_log_of_the_server_has_neither_the_token_nor_the_code(home: str) -> None:
    os.makedirs(home)
    with Server.start(home, "--no-watch") as server:
        page = Path(server.told["open"]).read_text(encoding="utf-8")
        code = page.partition("code=")[2].partition('"')[0]
        server.sign_in()
        server.send("GET", "/api/v1/runs", {**server.bearer, "Referer": f"http://x/?{server.token}"})
        server.get("/runs/none")
        _, err = server.stop()
    assert server.token not in err
    assert code not in err


def test_server_without_the_page_says_how_to_build_it(home: str, tmp_path: Path) -> None:
    """Of a copy of the package that has no bundle."""
    package = Path(str(import_module("holdfast").__file__)).parent
    copy = tmp_path / "lib" / "holdfast"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("bundle", "__pycache__"))
    refused = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve"],
        env={**os.environ, "HOLDFAST_HOME": home, "PYTHONPATH": os.fspath(copy.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert "make web" in line
