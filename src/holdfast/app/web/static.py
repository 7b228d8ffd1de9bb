"""The files of the page: the bundle that `make web` builds. It holds no secret, so it needs no cookie."""

import mimetypes
import os

from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

from holdfast.app.web.bundle_files import BUNDLE, INDEX

_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_HASHED = "assets/"  # their names change with their content
_NO_PAGE = """<!doctype html><meta charset=utf-8><title>holdfast</title>
<p>This server has the API only. Build the page with <code>make web</code>, then restart it."""


def page_file(path: str, folder: str = BUNDLE) -> Response:
    """Return the file at a path; the page itself for every path that names none, because the page routes them."""
    name = path.lstrip("/")
    file = _file_at(folder, name)
    if file is not None:
        kind = _TYPES.get(os.path.splitext(file)[1]) or mimetypes.guess_type(file)[0] or "application/octet-stream"
        cache = "public, max-age=31536000, immutable" if name.startswith(_HASHED) else "no-cache"
        return FileResponse(file, media_type=kind, headers={"Cache-Control": cache})
    if name.startswith(_HASHED) or os.path.splitext(name)[1] in _TYPES:
        return PlainTextResponse("not found\n", 404)
    index = _file_at(folder, INDEX)
    if index is None:
        return missing_page()
    return FileResponse(index, media_type="text/html", headers={"Cache-Control": "no-cache"})


def missing_page() -> Response:
    return HTMLResponse(_NO_PAGE, 404)


def _file_at(folder: str, name: str) -> str | None:
    """Return the file of this name in the bundle, never one outside of it."""
    if not name or "\0" in name:
        return None
    top = os.path.realpath(folder)
    real = os.path.realpath(os.path.join(top, name))
    return real if real.startswith(top + os.sep) and os.path.isfile(real) else None
