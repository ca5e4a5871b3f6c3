"""The explorer's small web server: this machine only, with a secret in the address."""

from __future__ import annotations

import hmac
import io
import json
import re
import secrets
import select
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lbarn._models.density import Density
from lbarn._tables.output import csv_to
from lbarn.explorer.conditions import Conditions, QuestionError, read_conditions
from lbarn.explorer.queries import ask, describe, draw_rows, strangeness
from lbarn.explorer.subject import Subject

__all__ = ["ExplorerServer"]

_LOOPBACK = "127.0.0.1"
_MAX_REQUEST = 256 * 1024  # bytes
_AT_ONCE = 4  # questions that are worked on
_IDLE = 60.0  # seconds after which a connection without a request is closed
_PATIENCE = 20.0  # seconds that a final answer waits for the pool
_SHOWN_ROWS = 500  # rows in the page; a file may have more

_PAGE = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ExplorerServer(ThreadingHTTPServer):
    """Answers questions about one model at ``url``; ``serve_forever`` until it is shut down.

    Parameters
    ----------
    model : fitted LBARN, LBARNEnsemble, or network of ``lbarn.baselines``
    name : what the page calls it
    port : 0 takes any that is free
    n_rows : rows that are drawn once; most questions are answered by counting among them
    random_state : int
    """

    daemon_threads = True
    allow_reuse_address = sys.platform != "win32"  # there it would share a port that is taken
    request_queue_size = 32

    def __init__(
        self, model: Density, name: str, *, port: int = 0, n_rows: int = 50_000, random_state: int | None = None
    ) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        try:
            self.token = secrets.token_urlsafe(24)
            seed = secrets.randbelow(2**31) if random_state is None else random_state
            self.subject = Subject(model, name, n_rows=n_rows, seed=seed)
        except BaseException:
            self.server_close()
            raise
        self.at_once = threading.BoundedSemaphore(_AT_ONCE)
        self.refining = threading.Lock()
        threading.Thread(target=self.subject.grow, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may call this server: a name that leads here but is somebody else's is not among them."""
        return f"{_LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks off concerns nobody."""


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "lbarn", ""
    timeout = _IDLE

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the user's."""

    # ------------------------------------------------------------------ who may ask, and for what

    def _answer(self, find: Callable[[str, str], tuple[bytes, str]]) -> None:
        extra: dict[str, str] = {}
        try:
            place, query = self._place()
            content, kind = find(place, query)
            status = HTTPStatus.OK
            if kind.startswith("text/csv"):
                extra["Content-Disposition"] = 'attachment; filename="rows.csv"'
        except _Refused as refusal:
            status, (content, kind) = refusal.status, _json({"error": str(refusal)})
        except ValueError as error:  # what is wrong with a question
            status, (content, kind) = HTTPStatus.BAD_REQUEST, _json({"error": _plain(str(error))})
        except OSError:
            raise  # the connection
        except Exception:
            traceback.print_exc()
            status, (content, kind) = HTTPStatus.INTERNAL_SERVER_ERROR, _json({"error": "this question made an error"})
        if status is not HTTPStatus.OK:
            self.close_connection = True  # a body may be waiting that nobody reads
            extra["Connection"] = "close"
        self.send_response(status)
        for name, value in {**_HEADERS, **extra, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _place(self) -> tuple[str, str]:
        """The part of the address after the token, and its query."""
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            raise _Refused(HTTPStatus.FORBIDDEN, "this address is not the explorer's")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.server.hosts}:
            raise _Refused(HTTPStatus.FORBIDDEN, "this page may not ask")
        parts = urlsplit(self.path)
        token, slash, place = parts.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise _Refused(
                HTTPStatus.FORBIDDEN, "the token in the address is wrong; lbarn explore prints the right one"
            )
        if not slash:
            raise _Refused(HTTPStatus.NOT_FOUND, "the address ends with a slash")
        return place, parts.query

    def _get(self, place: str, query: str) -> tuple[bytes, str]:
        subject = self.server.subject
        if place in _PAGE:
            name, kind = _PAGE[place]
            return resources.files("lbarn.explorer").joinpath(name).read_bytes(), kind
        if place == "api/model":
            with self.server.at_once:
                return _json({**describe(subject), "base": ask(subject, {})})
        if place == "rows.csv":
            fields = parse_qs(query, max_num_fields=4)
            conditions = self._conditions(_parsed(fields.get("conditions", ["[]"])[0].encode()))
            n = fields.get("n", [""])[0]
            with self.server.at_once:
                rows = draw_rows(subject, conditions, int(n) if n.isdecimal() and len(n) < 10 else 0)
            file = io.BytesIO()
            with csv_to(file, subject.names) as output:
                output.write(rows)
            return file.getvalue(), "text/csv; charset=utf-8"
        raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _post(self, place: str, query: str) -> tuple[bytes, str]:
        subject, content = self.server.subject, self._body()
        if place == "api/ask":
            conditions = self._conditions(content.get("conditions"))
            if content.get("refined") is True:
                return _json(self._refined(conditions))
            with self.server.at_once:
                return _json(ask(subject, conditions))
        if place == "api/strange":
            text = content.get("row")
            if not isinstance(text, str):
                raise QuestionError("row must be a string")
            with self.server.at_once:
                return _json(strangeness(subject, text))
        if place == "api/rows":
            n = content.get("n")
            if type(n) is int and n > _SHOWN_ROWS:
                raise QuestionError(f"at most {_SHOWN_ROWS} rows are shown; download more")
            conditions = self._conditions(content.get("conditions"))
            with self.server.at_once:
                rows = draw_rows(subject, conditions, n if type(n) is int else 0)
            return _json({"names": rows.column_names, "rows": _texts(rows)})
        raise _Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _refined(self, conditions: Conditions) -> dict[str, Any]:
        """The final answer, one after the other: whoever has clicked again meanwhile does not wait for it."""
        self.server.subject.wait(_PATIENCE)
        with self.server.refining:
            if self._is_gone():
                raise ConnectionAbortedError
            return ask(self.server.subject, conditions, refined=True)

    def _is_gone(self) -> bool:
        """Whether the other end has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _conditions(self, content: Any) -> Conditions:
        return read_conditions(content, self.server.subject.charts, self.server.subject.names)

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question must be application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or self.headers.get("Transfer-Encoding") is not None:
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "a question must tell its length")
        if len(length) > 9 or int(length) > _MAX_REQUEST:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question may have at most {_MAX_REQUEST:,} bytes")
        content = _parsed(self.rfile.read(int(length)))
        if not isinstance(content, dict):
            raise QuestionError("a question must be an object")
        return content


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise QuestionError("the question is not JSON") from None


def _json(content: Any) -> tuple[bytes, str]:
    return json.dumps(content, allow_nan=False).encode(), "application/json"


def _plain(why: str) -> str:
    """The words of the library, without the number of a row that nobody has counted."""
    return re.sub(r" \(row 0, counted from 0\)", "", why)


def _texts(rows: Any) -> list[list[str | None]]:
    columns = [[None if value is None else str(value) for value in column.to_pylist()] for column in rows.columns]
    return [list(row) for row in zip(*columns)]
