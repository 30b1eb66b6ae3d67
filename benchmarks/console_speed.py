"""Measure the console's time to first paint, and the delay of a change on its page, in Debian's Chromium.

    python -m benchmarks.console_speed [--objects 1000] [--visits 20]

It runs on devcluster, with a manager that has so many Foos. Each visit has an empty browser cache; for the
first one the manager also reads the page's template.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from benchmarks.table import table
from tests.support.crds import install_crds
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.foos import foo, foo_path
from tests.support.manager_process import ManagerProcess

PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const each of list.getEntries()) if (each.name === "first-contentful-paint") {
    const before = performance.getEntriesByType("resource").filter((it) => it.responseEnd <= each.startTime);
    const page = performance.getEntriesByType("navigation")[0];
    done({
      paint: each.startTime,
      answer: page.responseStart,
      requests: 1 + before.length,
      bytes: page.transferSize + before.reduce((sum, it) => sum + it.transferSize, 0),
    });
  }
}).observe({ type: "paint", buffered: true }))"""
"""The milliseconds, requests and bytes before the first paint."""

SEEN = """(word) => new Promise((done) => {
  const look = () => document.body.textContent.includes(word) && done(Date.now());
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
  look();
})"""


def painted(browser: Browser, address: str) -> dict[str, float]:
    """Visit a page with an empty browser cache, and return the paint's figures."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        found: dict[str, float] = page.evaluate(PAINT)
        return found


def seconds_until_seen(
    browser: Browser, plane: DevclusterControlPlane, address: str, visits: int
) -> list[float]:
    """Return the seconds from a write until its effect is on the object's page."""
    found = []
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_text("live", exact=True).wait_for()
        for number in range(visits):
            friend = f"friend-{number}"
            page.evaluate("(word) => { window.seen = (" + SEEN + ")(word) }", f"no pod named {friend}")
            before = page.evaluate("() => Date.now()")
            plane.api.patch(foo_path("default", "foo-0"), {"spec": {"name": friend}})
            found.append((page.evaluate("() => window.seen") - before) / 1000)
            page.wait_for_timeout(700)
    return found


def rows(plane: DevclusterControlPlane, manager: ManagerProcess, visits: int) -> tuple[list[Any], list[Any]]:
    """Return the rows about paints, and those about updates."""
    address = f"http://{manager.console_address}"
    paints: list[Any] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        pages = {
            "overview": "/",
            "search": "/search",
            "object": "/objects/foos.tutorial.my.domain/default/foo-0",
        }
        for name, path in pages.items():
            first = painted(browser, address + path)
            seen = [painted(browser, address + path) for _ in range(visits)]
            times = sorted(each["paint"] for each in seen)
            paints.append(
                [
                    name,
                    first["paint"],
                    statistics.median(times),
                    times[-1],
                    statistics.median(each["answer"] for each in seen),
                    max(each["requests"] for each in seen),
                    max(each["bytes"] for each in seen) / 1000,
                ]
            )
        updates = sorted(seconds_until_seen(browser, plane, address + pages["object"], visits))
        browser.close()
    return paints, [["object", statistics.median(updates) * 1000, updates[-1] * 1000]]


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console_speed", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--visits", type=int, default=20)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with DevclusterControlPlane(folder / "plane", persistent=False) as plane:
            install_crds(plane)
            plane.api.create_many(
                foo_path("default"), [foo(f"foo-{n}", "jack") for n in range(options.objects)]
            )
            flags = ("--controllers=foo,memcached",)
            with ManagerProcess(plane.kubeconfig, *flags, folder=folder / "manager") as manager:
                manager.wait_ready()
                paints, updates = rows(plane, manager, options.visits)
    print(table(["page", "first ever, ms", "paint, ms", "longest", "first byte", "requests", "kB"], paints))
    print(table(["change on the page of", "median, ms", "longest"], updates))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
