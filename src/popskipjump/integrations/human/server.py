"""The study as a local web page: access control, and the pages it serves."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from popskipjump.errors import InputError, MissingExtraError
from popskipjump.integrations.human.study import Study

EXTRA = "serve"
_MOST_BYTES = 4096
_ASSETS = {
    "": ("page.html", "text/html"),
    "page.js": ("page.js", "text/javascript"),
    "page.css": ("page.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the link is the key: no other site may learn it
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """An unguessable part of a link."""
    return secrets.token_urlsafe(24)


def application(study: Study, token: str, origins: Iterable[str]) -> Any:
    """The ASGI application of a study.

    Args:
        study: asked and answered.
        token: the first part of every path; without it there is nothing.
        origins: "http://host:port" by which the page may be reached; any other Host or Origin is refused.
    """
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError:
        raise MissingExtraError("starlette", EXTRA) from None
    allowed = frozenset(origins)
    files = {name: (_asset(file), kind) for name, (file, kind) in _ASSETS.items()}

    def refused(request: Request) -> Response | None:
        why = _refusal(request, token, allowed)
        return None if why is None else Response(why[1], why[0], HEADERS)

    async def show(request: Request) -> Response:
        found = files.get(str(request.path_params.get("name", "")))
        if (no := refused(request)) is not None:
            return no
        if found is None:
            return Response("not found", 404, HEADERS)
        return Response(found[0], media_type=found[1], headers=HEADERS)

    def taking(act: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            if (no := refused(request)) is not None:
                return no
            try:
                content = await _body(request)
                answer = await run_in_threadpool(act, content)
            except InputError as error:
                return JSONResponse({"error": str(error)}, 400, HEADERS)
            return JSONResponse(answer, headers=HEADERS)

        return endpoint

    def answer(content: dict[str, Any]) -> dict[str, Any]:
        return {"taken": study.answer(content.get("person"), content.get("key"), content.get("answer"))}

    def following(content: dict[str, Any]) -> dict[str, Any]:
        return study.next(content.get("person", ""))

    routes = [
        Route("/{token}/next", taking(following), methods=["POST"]),
        Route("/{token}/answer", taking(answer), methods=["POST"]),
        Route("/{token}/", show, methods=["GET"]),
        Route("/{token}/{name}", show, methods=["GET"]),
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # a redirect would answer before the token is looked at
    return app


def _refusal(request: Any, token: str, allowed: frozenset[str]) -> tuple[int, str] | None:
    """Status and text for a request that gets nothing; None if it may go on."""
    if f"http://{request.headers.get('host', '')}" not in allowed:
        return 421, "unknown host"
    given = str(request.path_params.get("token", "")).encode("utf-8", "replace")
    if not secrets.compare_digest(given, token.encode()):
        return 404, "not found"
    # Browsers name the origin of every POST; a page of another site cannot leave it out or forge it.
    if request.method == "POST" and request.headers.get("origin") not in allowed:
        return 403, "another origin"
    return None


async def _body(request: Any) -> dict[str, Any]:
    """A small JSON object, or an error."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > _MOST_BYTES:
            raise InputError("the request is too large.")
        parts.append(part)
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        raise InputError("the request is not JSON.")
    try:
        content = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        raise InputError("the request is not JSON.") from None
    if not isinstance(content, dict):
        raise InputError("the request is not a JSON object.")
    return content


def _asset(name: str) -> bytes:
    return (resources.files("popskipjump.integrations.human") / "assets" / name).read_bytes()
