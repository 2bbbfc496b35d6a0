"""A browser that is controlled by mouse and keyboard events through Chromium's debugging pipe."""

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE = 120
"""Seconds that a page may take for something that it does in a moment on an idle machine."""


class Browser:
    """A headless Chromium with one page; `problems` collects the errors of its console, `requests` what it loads."""

    def __init__(self, page, *, width=1400, height=900, dark=False, calm=False):
        self.problems, self.requests, self._last, self._rest = [], [], 0, b""
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # nothing is left beside the page
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "about:blank",
                   f"--user-data-dir={self._home.name}/profile"]  # fmt: skip
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *options], pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env={**os.environ, "HOME": self._home.name},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.prefer(dark=dark, calm=calm)
        self._call("Page.navigate", url=page.as_uri())
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1) : addEventListener('load', done))"
        )

    def prefer(self, *, dark, calm=False):
        """Set whether the reader prefers dark pages, and pages that do not move."""
        preferences = {"prefers-color-scheme": "dark" if dark else "light",
                       "prefers-reduced-motion": "reduce" if calm else "no-preference"}  # fmt: skip
        features = [{"name": name, "value": value} for name, value in preferences.items()]
        self._call("Emulation.setEmulatedMedia", features=features)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with suppress(BrokenPipeError):
            os.write(self._to, b'{"id": 0, "method": "Browser.close"}\0')
        self._process.wait(timeout=300)
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def _call(self, method, **parameters):
        """Send a command and wait for its answer; events on the way are looked at for problems."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._look_at(answer)

    def _read(self):
        while b"\0" not in self._rest:
            chunk = os.read(self._from, 1 << 16)
            assert chunk, "Chromium has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _look_at(self, event):
        kind, parameters = event.get("method"), event.get("params", {})
        wrong = kind == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert")
        if wrong or kind in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.problems.append(parameters)
        if kind == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression):
        """Return the value of an expression in the page, awaited."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_until(self, condition):
        """Wait until an expression of the page is true, looking at it before every frame."""
        happened = self.evaluate(
            f"""(async () => {{ const end = Date.now() + {1000 * PATIENCE};
                while (Date.now() < end) {{
                    if ({condition}) return true;
                    await new Promise(done => requestAnimationFrame(done)); }}
                return false; }})()"""
        )
        assert happened, f"after {PATIENCE} s it does not hold that {condition}"

    def go_to(self, place):
        """Change the part of the address behind #, and wait until the page has noticed and drawn.

        A frame that waits to be drawn comes first: it writes the address of the state that it shows.
        """
        self.evaluate(
            f"""new Promise(done => {{ const drawn = next => requestAnimationFrame(() => requestAnimationFrame(next));
                drawn(() => {{
                    if (location.hash === {json.dumps(place)}) return done();
                    addEventListener("hashchange", () => drawn(done), {{once: true}});
                    location.hash = {json.dumps(place)}; }}); }})"""
        )

    def evaluate_in_frame(self, expression):
        """Return the value of an expression in the frame of the page, which is a process of its own."""
        own, self._session = self._session, None
        try:
            targets = self._call("Target.getTargets")["targetInfos"]
            (frame,) = [each["targetId"] for each in targets if each["type"] == "iframe"]
            self._session = self._call("Target.attachToTarget", targetId=frame, flatten=True)["sessionId"]
            return self.evaluate(expression)
        finally:
            self._session = own

    def click(self, selector):
        """Press and release the left button of the mouse in the middle of an element, once it stands still."""
        middle = """(async () => { const each = document.querySelector(%s); let last = [];
            for (let i = 0; i < 100; i++) {
                each.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
                const box = each.getClientRects()[0], now = [box.x + box.width / 2, box.y + box.height / 2];
                if (now[0] === last[0] && now[1] === last[1]) break;
                last = now;
            }
            return last; })()"""
        x, y = self.evaluate(middle % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        """Type a text into what has the focus."""
        self._call("Input.insertText", text=text)

    def press(self, key, *, shift=False):
        """Press a key, such as ``ArrowDown``."""
        code = {"ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Delete": 46, "Enter": 13, "Tab": 9}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                       modifiers=8 * shift)  # fmt: skip

    def drag(self, start, stop, n_steps=10):
        """Press the left button of the mouse at a point, move it to another in steps, and release it."""
        self._mouse("mousePressed", *start, clicks=1)
        for step in range(1, n_steps + 1):
            share = step / n_steps
            self._mouse("mouseMoved", *(a + share * (b - a) for a, b in zip(start, stop, strict=True)))
            self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self._mouse("mouseReleased", *stop, clicks=1)

    def double_click(self, x, y):
        """Press and release the left button of the mouse twice at a point."""
        for clicks in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self._mouse(kind, x, y, clicks=clicks)

    def hover(self, x, y):
        """Move the mouse to a point."""
        self._mouse("mouseMoved", x, y)

    def _mouse(self, kind, x, y, clicks=0):
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if clicks else "none",
                   buttons=int(kind != "mouseReleased" and bool(clicks)), clickCount=clicks)  # fmt: skip
