"""How quickly the explorer answers: from a key press to the painted picture, and the longest wait of a frame.

    python -m benchmarks.explore --out benchmarks/results/explore.json

Needs playwright and a chromium of the system.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from iclearn.explore.bundle import write_page

from .machine import machine, now

CASES = {
    "D=4 H=5 R=1, 10000 steps": "heads=5&steps=10000",
    "D=8 H=9 R=1, 10000 steps": "eigenvalues=0.22,0.19,0.17,0.14,0.11,0.08,0.06,0.03&heads=9&steps=10000",
}
_WATCH = """() => {
  window.times = [];
  let pressed = 0;
  addEventListener("keydown", () => { pressed = performance.now(); }, true);
  new MutationObserver(() => requestAnimationFrame(() => {
    const channel = new MessageChannel(); // answered after the frame is painted
    channel.port1.onmessage = () => { if (pressed) window.times.push(performance.now() - pressed); pressed = 0; };
    channel.port2.postMessage(0);
  })).observe(document.body, { attributes: true, attributeFilter: ["data-turn"] });
}"""
_FRAMES = """() => {
  window.longest = 0;
  let before = performance.now();
  const frame = (now) => {
    window.longest = Math.max(window.longest, now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
_SWEEP = """async (id) => {
  const slider = document.getElementById(id);
  const [low, high] = [Number(slider.min), Number(slider.max)];
  const count = Math.min(40, high - low);
  for (let i = 0; i <= count; i++) {
    slider.value = low + ((high - low) * i) / count;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 16));
  }
  slider.dispatchEvent(new Event("change", { bubbles: true }));
}"""


def _wait(page: Any) -> None:
    page.wait_for_selector('body[data-shown][data-busy=""]', timeout=60_000)


def latency(page: Any, address: str, presses: int) -> dict[str, float]:
    """Milliseconds from an arrow key on an eigenvalue's slider to the painted picture."""
    page.evaluate("hash => { location.hash = hash; }", address)
    page.wait_for_timeout(300)
    _wait(page)
    page.evaluate(_WATCH)
    page.locator("#c-eigenvalue-1").focus()
    for i in range(presses):
        page.keyboard.press("ArrowDown" if i % 2 else "ArrowUp")
        page.wait_for_timeout(150)
        _wait(page)
    page.wait_for_timeout(300)
    times = sorted(page.evaluate("window.times"))
    return {"median_ms": statistics.median(times), "p90_ms": times[int(0.9 * len(times))], "measured": len(times)}


def longest_frame(page: Any) -> dict[str, float]:
    """Milliseconds of the longest frame while each slider goes from end to end."""
    found = {}
    for name in ("heads", "rank", "dim", "eigenvalue-1", "context", "init", "lr", "steps", "seed"):
        page.evaluate("hash => { location.hash = hash; }", "preset=fig4r2" if name == "rank" else "preset=fig3")
        page.wait_for_timeout(200)
        _wait(page)
        page.evaluate(_FRAMES)
        page.evaluate(_SWEEP, f"c-{name}")
        _wait(page)
        found[name] = page.evaluate("window.longest")
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--presses", type=int, default=50)
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright

    file = write_page(Path(tempfile.mkdtemp()) / "explore.html")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        result: dict[str, Any] = {
            "started": now(), "machine": machine(), "load_average_before": os.getloadavg(), "browser": browser.version,
            "page_kb": file.stat().st_size // 1024, "key_to_paint": {},
        }  # fmt: skip
        for name, address in CASES.items():
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(file.as_uri())
            _wait(page)
            result["key_to_paint"][name] = latency(page, address, args.presses)
            page.close()
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(file.as_uri())
        _wait(page)
        result["longest_frame_ms"] = longest_frame(page)
        browser.close()
    result["load_average_after"] = os.getloadavg()
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
