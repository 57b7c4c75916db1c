"""A headless Chromium, driven by chromedriver: as much of the W3C's WebDriver as tests need."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.request import ProxyHandler, Request, build_opener

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)
KEYS = {"escape": "\ue00c", "tab": "\ue004", "down": "\ue015", "right": "\ue014", "left": "\ue012"}
_OPENER = build_opener(ProxyHandler({}))  # the driver is on this machine
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing() -> str | None:
    """Why there is no browser to test with, if there is none."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)} on PATH" if absent else None


class Browser:
    """One window; `with Browser(folder) as browser`, the folder being for its own files."""

    def __init__(
        self, folder: Path, width: int = 1366, height: int = 768, *, dark: bool = False
    ) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._driver.stdout is not None
        port = None
        for line in self._driver.stdout:
            if found := re.search(rb"successfully on port (\d+)", line):
                port = int(found[1])
                break
        assert port is not None, "chromedriver did not start"
        self._url = f"http://127.0.0.1:{port}/session"
        profile = [f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        options = {"binary": shutil.which("chromium"), "args": [*ARGUMENTS, *profile, scheme]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._url += f"/{made['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            assert self._driver.stdout is not None
            self._driver.stdout.close()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self._url + path, data, headers, method=method)
        with _OPENER.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        self._ask("POST", "/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *arguments: object) -> Any:
        """What a function body of JavaScript returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def click(self, selector: str) -> None:
        found = self._ask("POST", "/element", {"using": "css selector", "value": selector})
        self._ask("POST", f"/element/{found[_ELEMENT]}/click", {})

    def press(self, key: str) -> None:
        """A key as of a keyboard, a letter or a name of `KEYS`."""
        value = KEYS.get(key, key)
        presses = [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keys", "actions": presses}]
        self._ask("POST", "/actions", {"actions": actions})

    def errors(self) -> list[str]:
        """What the console has said since it was asked last, but for what is only information."""
        entries = self._ask("POST", "/se/log", {"type": "browser"})
        return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: Path) -> None:
        """Writes what the window shows as a PNG."""
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))
