"""The reports of docs/examples and the live page in a real browser: ``make look``.

The live page is that of a migration of real brokers, in each of five phases. Each page is opened at
two widths, light and dark. What must hold: nothing is wider than the window, no text has a contrast
below 4.5, the page's policy and its script complain of nothing, the first two answers of a report
are on the first screen, its pictures are moved in and zoomed by keys, with one cursor in all; of
the live page also: so is the next step, an arrow key shows an earlier figure, a hostile name stays
text, and no "null" is shown. Its pictures of 1280 px
go to docs/pictures, all to the folder that is given; each report also as it is printed.

Chromium is driven over a pair of pipes, by its DevTools protocol: no library, no port.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.load import cluster_api as api
from emulator.servers.bridge import Bridge
from emulator.servers.cluster import KafkaCluster
from emulator.servers.seeded import connected
from emulator.servers.waiting import PATIENCE_S, wait_for
from emulator.servers.zookeeper import ZooKeeper

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs/pictures"
EXAMPLES: Final = ROOT / "docs/examples"
BYTES_MAX: Final = 100_000
"""Of a picture in the docs."""
WIDTHS: Final = (1280, 390)
SCHEMES: Final = ("light", "dark")
HEIGHT: Final = 900
LOOKS: Final = 10
"""Of a controller at itself, one a second, before its page is shown: its charts are not empty."""
_HOLD: Final = "kraftbridge.finalise.hold"


class LookError(Exception):
    """The browser cannot do what was asked."""


class Browser:
    """One page in a headless Chromium.

    Args:
        program: Chromium.
        folder: for its profile.
    """

    def __init__(self, program: str, folder: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def at_3_and_4() -> None:
            os.dup2(to_read, 200)
            os.dup2(to_write, 201)
            os.dup2(200, 3)
            os.dup2(201, 4)

        options = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run"
        self._process = subprocess.Popen(
            [
                program,
                *options.split(),
                "--remote-debugging-pipe",
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            preexec_fn=at_3_and_4,  # noqa: PLW1509 - one thread; Chromium wants these numbers
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self.console: list[str] = []
        """What the page complained of: errors, and what its policy refused."""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """One call of the protocol; raises LookError."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise LookError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            if answer.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.console.append(json.dumps(answer["params"])[:2_000])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._read, 65_536)
            if not data:
                raise LookError("the browser has ended")
            self._rest += data
        one, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(one))

    def value(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise LookError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def show(self, url: str, width: int, scheme: str, drawn: str = ".card") -> None:
        """Open a page at a width, in a colour scheme; wait until it has what ``drawn`` selects."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=url)
        self.value(
            "new Promise(done => { const look = () => document.readyState === 'complete' && "
            f"document.querySelector('{drawn}') ? done() : setTimeout(look, 50); look(); }})"
        )

    def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, as PNG; ``whole``: below the first screen too."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(found["data"])

    def printed(self) -> bytes:
        """The page on sheets of A4, as PDF."""
        found = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(found["data"])

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(LookError, OSError):
            self._session = None
            self.call("Browser.close")
        self._process.terminate()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)


@contextlib.contextmanager
def browser(program: str) -> Iterator[Browser]:
    """A browser until the end of the block."""
    # Children of Chromium may write into its profile while it is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = Browser(program, Path(folder))
        try:
            yield found
        finally:
            found.close()


_CONTRAST: Final = r"""(() => {
  const numbers = text => {  // a mixture is color(srgb 0.9 …), in parts of 1
    const found = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(") ? found.map((one, at) => at < 3 ? 255 * one : one) : found;
  };
  const linear = one => (one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  const light = rgb => {
    const [r, g, b] = rgb.map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = one => {
    for (; one; one = one.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(one).backgroundColor);
      if (a) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("body *:not(script, style, noscript)")) {
    const text = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || one.closest("noscript")) continue;
    const a = light(numbers(getComputedStyle(one).color).slice(0, 3)), b = light(behind(one));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${one.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return found;
})()"""
_KEYS: Final = """(() => {
  const svg = document.querySelector("svg[tabindex]");
  svg.focus();
  svg.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true}));
  const seen = svg.previousElementSibling.textContent.includes(" at ");
  svg.blur();
  return [seen, svg.previousElementSibling.textContent.includes(" at ")];
})()"""
_HOSTILE: Final = """(() => {
  window.alert = () => { window.fooled = true; };
  const text = "<img src=x onerror=alert(1)>" + "x".repeat(249);
  last.status.refusals = [{broker: 9, error: "E", text, remedy: text, times: 1, at: ""}];
  last.next = [{action: "repair", what: text, why: text, command: text}];
  last.answers[0].text = text;
  show();
  return [document.querySelectorAll("img").length, window.fooled || false,
    document.getElementById("brokers").textContent.includes(text),
    document.documentElement.scrollWidth > innerWidth];
})()"""


_NO_WORDS: Final = r"""document.body.innerText.match(/\b(null|undefined|NaN)\b/g) || []"""
"""What a script shows by mistake."""
_BELOW: Final = """[...document.querySelectorAll("%s")].slice(0, 2)
  .filter(one => one.getBoundingClientRect().bottom > innerHeight)
  .map(one => one.textContent.slice(0, 60))"""
"""What of the first two of a kind is below the first screen."""
_NEXT_BELOW: Final = _BELOW % "#back-now, #next .edge, #next .what"
_ANSWERS_BELOW: Final = _BELOW % ".answer"


_CURSOR: Final = """(async () => {
  const wrong = [], wait = () => new Promise(done => setTimeout(done, 50));
  const [one, other] = [...document.querySelectorAll(".plot")].filter(place => place.clientWidth
    && place.querySelector(".u-legend") && !place.closest("[data-chart=percentiles]"));
  const at = place => place.querySelector(".u-legend .u-value").textContent;
  const press = async key => {
    one.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    await wait();
  };
  one.focus();
  if (document.activeElement !== one) wrong.push("a picture takes no focus");
  if (at(other)) wrong.push("a cursor is there before a key");
  await press("Home");
  const begin = at(one);
  if (!begin) wrong.push("a key moves no cursor");
  if (!at(other)) wrong.push("another picture has not the same cursor");
  if (!one.closest("article, body").querySelector(".spoken[aria-live]").textContent)
    wrong.push("nothing is said to a screen reader");
  await press("End"), await press("+"), await press("Home");
  if (at(one) === begin) wrong.push("+ does not zoom");
  await press("0"), await press("Home");
  if (at(one) !== begin) wrong.push("0 does not show all");
  return wrong;
})()"""
"""What is wrong with the first two pictures of a report that have a legend."""


def looked_at(seen: Browser, url: str, name: str, out: Path) -> list[str]:
    """Open the page in each width and scheme; returns what is wrong.

    Args:
        seen: the browser.
        url: of the page.
        name: of the phase, in the names of the pictures.
        out: folder for all of them.
    """
    wrong = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            seen.show(url, width, scheme)
            seen.value("new Promise(done => setTimeout(done, 1500))")
            where = f"{name} {width} {scheme}"
            wide = seen.value("document.documentElement.scrollWidth")
            if wide > width:
                wrong.append(f"{where}: {wide} px wide")
            wrong += [f"{where}: contrast of {one}" for one in seen.value(_CONTRAST)]
            if seen.value(_KEYS) != [True, False]:
                wrong.append(f"{where}: an arrow key shows no earlier figure")
            wrong += [f"{where}: {one} is shown" for one in seen.value(_NO_WORDS)]
            wrong += [f"{where}: below the first screen: {one}" for one in seen.value(_NEXT_BELOW)]
            (out / f"live-{name}-{width}-{scheme}.png").write_bytes(seen.picture(whole=True))
            if (width, scheme) == (WIDTHS[0], SCHEMES[0]):
                small = few_colours(seen.picture())
                (PICTURES / f"live-{name}.png").write_bytes(small)
                if len(small) > BYTES_MAX:
                    wrong.append(f"{where}: a picture of {len(small):,} bytes")
            if seen.value(_HOSTILE) != [0, False, True, False]:
                wrong.append(f"{where}: a hostile name is no text: {seen.value(_HOSTILE)}")
    # The controller may restart before the next look, which is no fault of this page.
    seen.call("Page.navigate", url="about:blank")
    wrong += [f"{name}: {one}" for one in seen.console]
    seen.console.clear()
    return wrong


def report_looked_at(seen: Browser, page: Path, out: Path) -> list[str]:
    """Open a report in each width and scheme; returns what is wrong.

    Args:
        seen: the browser.
        page: the file.
        out: folder for the pictures.
    """
    wrong = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            seen.show(page.as_uri(), width, scheme, ".drawn")
            where = f"{page.stem} {width} {scheme}"
            wide = seen.value("document.documentElement.scrollWidth")
            if wide > width:
                wrong.append(f"{where}: {wide} px wide")
            wrong += [f"{where}: contrast of {one}" for one in seen.value(_CONTRAST)]
            below = seen.value(_ANSWERS_BELOW)
            wrong += [f"{where}: below the first screen: {one}" for one in below]
            (out / f"report-{page.stem}-{width}-{scheme}.png").write_bytes(seen.picture(whole=True))
            if (page.stem, width, scheme) == ("demo", WIDTHS[0], SCHEMES[0]):
                (PICTURES / "report-demo.png").write_bytes(few_colours(seen.picture()))
            if (width, scheme) == (WIDTHS[0], SCHEMES[0]):
                (out / f"report-{page.stem}.pdf").write_bytes(seen.printed())
            wrong += [f"{where}: {one}" for one in seen.value(_CURSOR)]
    wrong += [f"{page.stem}: {one}" for one in seen.console]
    seen.console.clear()
    return wrong


def few_colours(png: bytes) -> bytes:
    """A picture in 64 colours, which a page of text does not exceed."""
    return subprocess.run(
        ["pngquant", "64", "-"], input=png, stdout=subprocess.PIPE, check=True
    ).stdout


def create(cluster: KafkaCluster, name: str, topics: int) -> None:
    """Create topics through a broker, one call each, so that the charts show something."""
    for i in range(topics):
        wanted = api.topic(f"{name}-{i}", 2, 2, {})
        asyncio.run(api.create_topics(cluster.brokers[0].bootstrap, [wanted]))


def looks(bridge: Bridge) -> int:
    """How many seconds the charts of a controller's page show; it begins anew with each process."""
    return len(json.loads(bridge.wait_page("/series"))["samples"])


def phases(cluster: KafkaCluster, bridge: Bridge) -> Iterator[str]:
    """Migrate, and yield the name of each phase while the cluster is in it."""
    bridge.start().wait_started()
    bridge.wait_status("reasons to wait", lambda one: bool(one["migration"]["waiting"]))
    yield "waiting"
    cluster.migrate(bridge.port)
    bridge.wait_dual_write()
    bridge.wait_unfenced(broker.id for broker in cluster.brokers)
    create(cluster, "first", 20)
    yield "dual-write"
    for broker in cluster.brokers:
        broker.stop(PATIENCE_S)
        broker.zk, broker.migration = None, False
        broker.start().wait_started()
        bridge.wait_unfenced([broker.id])
        create(cluster, f"rolled-{broker.id}", 10)
    bridge.wait_drained()
    yield "in-kraft"
    bridge.stop(PATIENCE_S)
    bridge.extra["zookeeper.metadata.migration.enable"] = "false"
    bridge.extra[_HOLD] = "true"
    bridge.start().wait_started()
    bridge.wait_status("the hold", lambda one: bool(one["phase"]["name"] == "finalising"))
    bridge.wait_unfenced(broker.id for broker in cluster.brokers)
    yield "held"
    bridge.stop(PATIENCE_S)
    del bridge.extra[_HOLD]
    bridge.start().wait_started()
    bridge.wait_status("the end", lambda one: bool(one["phase"]["name"] == "final"))
    bridge.wait_unfenced(broker.id for broker in cluster.brokers)
    yield "final"


def reports(program: str, out: Path) -> Iterator[str]:
    """Look at the reports of docs/examples; yields what is wrong."""
    with browser(program) as seen:
        for page in sorted(EXAMPLES.glob("*.html")):
            found = report_looked_at(seen, page, out)
            print(f"{page.name}: {'; '.join(found) or 'as it should be'}", flush=True)
            yield from found


def live(program: str, out: Path) -> Iterator[str]:
    """Look at the page of a controller in a migration of real brokers; yields what is wrong."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ZooKeeper(Path(folder) / "zookeeper") as zookeeper,
        KafkaCluster("3.9.2", Path(folder), zookeeper, count=2) as cluster,
        browser(program) as seen,
    ):
        cluster.wait_ready()
        bridge = Bridge(Path(folder) / "bridge", zookeeper.hosts)
        try:
            with connected(zookeeper.hosts) as client:
                cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
            bridge.format(cluster_id, new_quorum=True)
            for name in phases(cluster, bridge):
                wait_for(f"{LOOKS} looks of the page", lambda: looks(bridge) >= LOOKS)
                found = looked_at(seen, f"{bridge.url}/", name, out)
                print(f"{name}: {'; '.join(found) or 'as it should be'}", flush=True)
                yield from found
        finally:
            bridge.kill()


def main(out: Path, *parts: str) -> int:
    """Look at all, or at ``reports`` alone, which needs no Java; returns the exit code."""
    program = shutil.which("chromium")
    if program is None:
        print("no chromium: apt-get install chromium", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    wrong = list(reports(program, out))
    if "reports" not in parts:
        wrong += live(program, out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
