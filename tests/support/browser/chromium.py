"""A headless Chromium, controlled over a pipe with the DevTools protocol.

The pipe (`--remote-debugging-pipe`) uses the file descriptors 3 and 4 of the browser. Each message
is JSON with a NUL at its end; no port is opened.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.timing import PATIENCE_SECONDS

PROGRAM_NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
    "--hide-scrollbars --remote-debugging-pipe --enable-logging=stderr"
).split()
_READ_BYTES = 1 << 16
_START = (
    "import fcntl, os, sys\n"
    "to, of = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])\n"
    "os.dup2(to, 3)\n"
    "os.dup2(of, 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
"""Moves the pipe ends to the descriptors that the browser uses, and executes the browser."""


def executable() -> str | None:
    """Return the path of the browser, None if it is not installed."""
    return next((path for path in map(shutil.which, PROGRAM_NAMES) if path), None)


class Tab:
    """One page, with its events: log messages, network requests and others."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result; events that arrive meanwhile are stored."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer}"
                return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri() + fragment)
        while not self.events_of("Page.loadEventFired"):
            self._next()

    def events_of(self, method: str) -> list[dict[str, Any]]:
        """Return the events of one kind since the page was opened."""
        return [parameters for name, parameters in self.events if name == method]

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; the page's policy does not apply."""
        wanted = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **wanted)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> bool:
        """Wait for a JavaScript condition; return False if it does not hold within a minute."""
        checks = f"for (let n = 0; n < 3000 && !({condition}); n++) await new Promise(next);"
        return bool(
            self.value(
                f"(async next => {{ {checks} return {condition}; }})(r => setTimeout(r, 20))"
            )
        )

    def click(self, selector: str) -> None:
        """Click on the first element that matches a selector; it must be in the viewport."""
        left, top = self.value(
            "(r => [r.left + Math.min(20, r.width / 2), r.top + r.height / 2])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        mouse = {"x": left, "y": top, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)

    def press_key(self, key: str, code: int, *, shift: bool = False, text: str = "") -> None:
        """Press and release one key."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def set_media(self, *, width: int = 1200, media: str = "screen", scheme: str = "light") -> None:
        """Set the width, the medium and the colour scheme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        wish = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media=media, features=[wish])

    def screenshot(self) -> bytes:
        """Return a PNG of the whole page."""
        wanted = {"captureBeyondViewport": True, "optimizeForSpeed": True}
        answer = self.call("Page.captureScreenshot", format="png", **wanted)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """Return a PDF of the printed page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def errors(self) -> list[str]:
        """Return log entries (policy violations), exceptions and console messages of the page."""
        reported = [str(each["entry"]["text"]) for each in self.events_of("Log.entryAdded")]
        reported += [str(each) for each in self.events_of("Runtime.exceptionThrown")]
        return reported + [str(each["args"]) for each in self.events_of("Runtime.consoleAPICalled")]

    def requests(self) -> list[str]:
        """Return the URLs that the page requested."""
        return [each["request"]["url"] for each in self.events_of("Network.requestWillBeSent")]

    def answers(self) -> list[str]:
        """Return the URLs that sent a response."""
        return [each["response"]["url"] for each in self.events_of("Network.responseReceived")]

    def _next(self) -> dict[str, Any]:
        """Read and return one message; events are stored."""
        while b"\0" not in self._rest:
            piece = os.read(self._from, _READ_BYTES)
            assert piece, "the browser has gone"
            self._rest += piece
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message


@contextmanager
def running_browser(home: Path) -> Iterator[Tab]:
    """Start a browser with its profile, cache and logs in the folder `home`, and end it."""
    path = executable()
    assert path is not None
    to_read, to_write = os.pipe()
    of_read, of_write = os.pipe()
    places = {"HOME": str(home), "TMPDIR": str(home), "XDG_RUNTIME_DIR": str(home)}
    arguments = [str(to_read), str(of_write), path, *FLAGS, f"--user-data-dir={home / 'profile'}"]
    with (home / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            pass_fds=(to_read, of_write),
            env={"PATH": os.environ["PATH"], **places},
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
    os.close(to_read)
    os.close(of_write)
    try:
        yield Tab(to_write, of_read)
    finally:
        os.close(to_write)
        os.close(of_read)
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the browser and its child processes, which share its process group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
