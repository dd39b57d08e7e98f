"""A real browser for tests: headless Chromium, driven over the DevTools protocol.

``Browser`` is one process with an empty profile; ``Tab`` one page, with mouse, keys and a wait for what a script says.
Errors of the page, violations of its content security policy and all URLs that it asked for are recorded.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

import websocket
from tests.programs import ROOT

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    # The server's certificate is issued by its own CA.
    "--ignore-certificate-errors",
    "--remote-debugging-port=0",
)
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def chromium() -> str:
    """The path of Chromium, or an empty string."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), "")


def axe_script() -> str:
    """The source of axe-core, where it is installed: ``AXE_CORE`` names its file, or ``.browser`` has it."""
    for path in (os.environ.get("AXE_CORE", ""), str(ROOT / ".browser/node_modules/axe-core/axe.min.js")):
        if path and Path(path).is_file():
            return Path(path).read_text(encoding="utf-8")
    return ""


class Browser:
    """Chromium, from ``__enter__`` to ``__exit__``."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        profile = Path(self._directory.name)
        self._process = subprocess.Popen(
            [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._directory.name},
        )
        self._port = _port(profile / "DevToolsActivePort", self._process)
        self._tabs: list[Tab] = []

    def open(self) -> "Tab":
        """A new tab."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=10) as response:
            target = json.load(response)
        tab = Tab(target["webSocketDebuggerUrl"])
        self._tabs.append(tab)
        return tab

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for tab in self._tabs:
            tab.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._directory.cleanup()


def _port(path: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + 30
    while not (path.exists() and (lines := path.read_text().split())):
        assert process.poll() is None, f"chromium ended with {process.returncode}"
        assert time.monotonic() < deadline, "chromium did not start within 30 s"
        time.sleep(0.05)
    return lines[0]


class Tab:
    """One page."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=30, suppress_origin=True)
        self._count = 0
        self.errors: list[str] = []
        """Exceptions, and what the browser complained about: violations of the policy, files that could not be had."""
        self.requested: list[str] = []
        """The URLs of all requests."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        self._count += 1
        number = self._count
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")
        elif message.get("method") == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])

    def close(self) -> None:
        """Close the connection; the tab is closed with the browser."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def go(self, url: str) -> None:
        """Load a page."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        details = result.get("exceptionDetails")
        assert details is None, f"{script}: {details}"
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + seconds
        while True:
            result = self.run(script)
            if result:
                return result
            if time.monotonic() > deadline:
                text = self.run("document.body.innerText.slice(0, 1500)")
                raise AssertionError(f"never true: {script}\n{self.errors}\n{text}")
            time.sleep(0.03)

    def find(self, selector: str, text: str = "") -> None:
        """Wait until an element that is shown fits the selector, and has the text."""
        self.wait(f"Boolean(({_FIND})({json.dumps(selector)}, {json.dumps(text)}))")

    def click(self, selector: str, text: str = "") -> None:
        """Click on the first element that matches the selector and has the text, once it stops moving.

        An element that is updated live may still move: then the click is repeated.
        """
        self.find(selector, text)
        for _try in range(5):
            x, y = self.run(f"({_POINT})({json.dumps(selector)}, {json.dumps(text)})")
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            if self.run("window.hit !== false"):
                return
        raise AssertionError(f"never hit: {selector}")

    def press(self, key: str) -> None:
        """Press a key."""
        code = _KEYS.get(key)
        text = {} if code is not None and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        number = {"windowsVirtualKeyCode": code} if code is not None else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **number)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **number)

    def write(self, text: str) -> None:
        """Write into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def size(self, width: int, height: int, scale: float = 1.0) -> None:
        """The size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def prefer(self, **features: str) -> None:
        """Set media features, such as ``prefers_color_scheme="dark"``."""
        media = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=media)

    def picture(self, path: Path) -> None:
        """Write a screenshot to a file."""
        result = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(result["data"]))


_FIND = """(selector, text) => [...document.querySelectorAll(selector)].find((each) =>
  each.checkVisibility() && each.textContent.includes(text))"""

_POINT = f"""async (selector, text) => {{
  let last = "";
  for (let pictures = 0; pictures < 300; pictures++) {{
    const found = ({_FIND})(selector, text);
    found?.scrollIntoView({{block: "center", behavior: "instant"}});
    const box = found?.getBoundingClientRect();
    const point = box && [box.x + box.width / 2, box.y + box.height / 2];
    const hit = point && document.elementFromPoint(...point);
    if (hit && (found.contains(hit) || hit.contains(found)) && last === String(point)) {{
      window.hit = false;
      found.addEventListener("click", () => {{ window.hit = true; }}, {{once: true, capture: true}});
      return point;
    }}
    last = String(point);
    await new Promise((done) => setTimeout(done, 40));
  }}
  throw new Error(`never still: ${{selector}}`);
}}"""
