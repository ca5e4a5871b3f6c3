"""A real browser, headless, spoken to in the DevTools protocol through a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 60  # seconds without a word, after which the browser is given up

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe"
)
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35}


class Browser:
    """One page of one process. ``complaints`` are errors and warnings on its console; ``requests`` what it asked for."""

    def __init__(self, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # The protocol is on descriptors 3 (in) and 4 (out); the shell puts the pipes there, by way of free numbers.
        command = f"exec {shlex.quote(str(CHROMIUM))} {_FLAGS} --user-data-dir={shlex.quote(str(profile))} about:blank"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f"exec 3<&{theirs_in} 4>&{theirs_out}; {command}"],
            pass_fds=[theirs_in, theirs_out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._unread = b""
        self._sent = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(self, url: str, *, width: int, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(self._read())

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until that is so."""
        poll = f"const clock = setInterval(() => {{ if ({expression}) {{ clearInterval(clock); clearTimeout(end); done(true); }} }}, 20)"
        end = f"const end = setTimeout(() => {{ clearInterval(clock); done(false); }}, {500 * _PATIENCE})"
        assert self.evaluate(f"new Promise((done) => {{ {poll}; {end}; }})"), f"never: {expression}"

    def center(self, selector: str) -> tuple[float, float]:
        """Of an element, which is scrolled into view, when the page has come to rest."""
        x, y = self.evaluate(
            f"""new Promise((done) => {{
                const look = (before) => {{
                    const element = document.querySelector({json.dumps(selector)});
                    element.scrollIntoView({{block: "center", behavior: "instant"}});
                    const box = element.getBoundingClientRect();
                    const now = [box.x + box.width / 2, box.y + box.height / 2];
                    if (String(now) === before) done(now);
                    else setTimeout(look, 40, String(now));
                }};
                look("");
            }})"""
        )
        return x, y

    def click(self, selector: str) -> None:
        """With a mouse."""
        self.drag(selector, selector)

    def drag(self, selector: str, to: str) -> None:
        """From one element to another, which are both in view then."""
        x, y = self.center(selector)
        self._mouse("mousePressed", x, y)
        if to != selector:
            self._mouse("mouseMoved", *self.center(to))
        self._mouse("mouseReleased", *self.center(to))

    def _mouse(self, kind: str, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key, for the element that has the focus."""
        event: dict[str, Any] = {"key": key, "code": key, "modifiers": 8 if shift else 0}
        event["windowsVirtualKeyCode"] = _KEYS.get(key, 0)
        if key == "Enter":
            event["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Into the element that has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._session = None
        if self._process.poll() is None:
            self.call("Browser.close")
        self._process.wait(timeout=_PATIENCE)
        self._in.close()
        self._out.close()

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE)
            part = os.read(self._in.fileno(), 1 << 16) if ready else b""
            if not part:
                self._process.kill()
                raise RuntimeError("the browser has gone" if ready else "the browser does not answer")
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        method, params = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("warning", "error", "assert"):
            self.complaints.append(str(params["args"]))
