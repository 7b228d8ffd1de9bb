"""openapi.json and docs/api.md, from the table of endpoints and the structs in their signatures."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.app.web.endpoint import PREFIX, Endpoint
from holdfast.app.web.problems import Problem
from holdfast.app.web.routes import ENDPOINTS

_REF = "#/components/schemas/{name}"
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text of at most 100 characters. A request with the key of an earlier one is not done again.",
    "schema": {"type": "string", "maxLength": 100},
}
_OWN_HEADER = {
    "name": "X-Holdfast",
    "in": "header",
    "required": True,
    "description": "Any value: a form of another page cannot send it.",
    "schema": {"type": "string"},
}


def openapi() -> dict[str, Any]:
    """The document, with the paths in the order of the table."""
    types = [kind for each in ENDPOINTS for kind in (each.query, each.body, each.answer) if _is_struct(kind)]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    by_type = dict(zip([*map(_name, types), "Problem"], schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(f"{PREFIX}{endpoint.path}", {})[endpoint.method.lower()] = _operation(
            endpoint, by_type, components
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__, "description": "The API of `holdfast serve`."},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "holdfast-PORT"},
            },
        },
    }


def _operation(endpoint: Endpoint, by_type: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PATH_PARAMETER.findall(endpoint.path)
    ]
    query = components[_name(endpoint.query)]
    for name, schema in query.get("properties", {}).items():
        required = name in query.get("required", ())
        parameters.append({"name": name, "in": "query", "required": required, "schema": schema})
    answers: dict[str, Any] = {
        str(endpoint.status): {"description": "done", **_content(endpoint.answer, by_type)},
        "default": {"description": "an error", "content": {"application/json": {"schema": by_type["Problem"]}}},
    }
    operation: dict[str, Any] = {"operationId": endpoint.name, "summary": endpoint.summary}
    if endpoint.method != "GET":
        parameters += [_OWN_HEADER, _KEY]
        body = by_type[_name(endpoint.body)]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return {**operation, "parameters": parameters, "responses": answers}


def _content(answer: Any, by_type: dict[str, Any]) -> dict[str, Any]:
    if not _is_struct(answer):
        return {"content": {"*/*": {"schema": {"type": "string"}}}}
    return {"content": {"application/json": {"schema": by_type[_name(answer)]}}}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _name(kind: Any) -> str:
    return str(kind.__name__)


# docs/api.md


def markdown(document: dict[str, Any]) -> str:
    """The endpoints as tables, and the shapes as lists of fields."""
    return "\n".join(_markdown_lines(document)) + "\n"


def _markdown_lines(document: dict[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    yield "## Endpoints"
    yield ""
    yield "| | | takes | answers |"
    yield "|---|---|---|---|"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield _endpoint_row(path.removeprefix(PREFIX), method, operation)
    yield ""
    yield "## Shapes"
    for name, schema in sorted(schemas.items()):
        if schema.get("properties"):
            yield from ("", f"### {name}", "")
            if schema.get("description"):
                yield from (" ".join(schema["description"].split()), "")
            for field, kind in schema["properties"].items():
                optional = "" if field in schema.get("required", ()) else ", may be left out"
                yield f"- `{field}`: {_type_text(kind)}{optional}"


def _endpoint_row(path: str, method: str, operation: dict[str, Any]) -> str:
    query = [each["name"] for each in operation["parameters"] if each["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    taken = [f"`?{'&'.join(query)}`"] if query else []
    if body and _type_text(body) != "Nothing":
        taken.append(_type_text(body))
    status, answer = next((code, each) for code, each in operation["responses"].items() if code != "default")
    kind, schema = next((kind, each["schema"]) for kind, each in answer["content"].items())
    shape = _type_text(schema) if kind == "application/json" else "text"
    code = "" if status == "200" else f"{status} "
    return f"| {method.upper()} `{path}` | {operation['summary']} | {' '.join(taken)} | {code}{shape} |"


def _type_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type_text(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type_text(schema['additionalProperties'])}"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))
