"""A real browser, controlled over its debugging pipe: JSON messages that end with a zero byte."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS_MAX = 60


def program() -> str | None:
    """The path of an installed Chromium; None if there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """A headless Chromium with one page and a profile of its own."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="pagehop-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [path, *flags, f"--user-data-dir={self._profile}", "--remote-debugging-pipe", "about:blank"]
        # The browser reads from file descriptor 3 and writes to 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Executes one command of the protocol, and returns its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url: str) -> None:
        """Goes to a page, and waits until it is loaded."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_until(f"location.href === {json.dumps(url)}")

    def wait_until(self, condition: str) -> None:
        """Waits until a page is loaded that meets the condition."""
        end = time.monotonic() + _SECONDS_MAX
        while time.monotonic() < end:
            # The browser reports an error while it leaves a page.
            with contextlib.suppress(RuntimeError):
                if self.evaluate(f"document.readyState === 'complete' && {condition}"):
                    return
            time.sleep(0.01)
        raise RuntimeError(f"no page came of which {condition}, in {_SECONDS_MAX} s")

    def type(self, text: str) -> None:
        """Types a search into the focused field, presses Enter, and waits for the results."""
        # A loaded page focuses its field with its first frame, which may be later.
        self.wait_until("document.activeElement.matches('input')")
        self.send("Input.insertText", text=text)
        self.wait_until(f"document.activeElement.value === {json.dumps(text)}")
        self.events.clear()
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
            )
        self.wait_until(f"new URLSearchParams(location.search).get('q') === {json.dumps(text)}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def _next(self) -> dict[str, Any]:
        """The next message. A message without an id is an event, which is also stored."""
        end = time.monotonic() + _SECONDS_MAX
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._in, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError(
                    "the browser has ended" if ready else f"the browser said nothing for {_SECONDS_MAX} s"
                )
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "id" not in found:
            self.events.append(found)
        return found

    def close(self) -> None:
        """Ends the browser and removes its profile."""
        os.close(self._out)
        try:
            self._process.wait(_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)
