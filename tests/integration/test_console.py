"""The console in a real browser, as a new user sees it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.conftest import RunManager
from tests.support.api_objects import deployment_path
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path, pod
from tests.support.manager_process import ManagerProcess
from tests.support.memcacheds import memcached, memcached_path

CHROMIUM = shutil.which("chromium")
PATIENCE = 60_000
PHONE = 360
"""Width of a phone in pixels."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A user with a browser at the console of a manager."""

    def __init__(self, page: Page, manager: ManagerProcess, folder: Path) -> None:
        self.page = page
        self.manager = manager
        self._folder = folder
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda it: self.complaints.append(it.text) if it.type == "error" else None)
        page.on("pageerror", lambda it: self.complaints.append(str(it)))

    def open(self, path: str) -> None:
        self.page.goto(f"http://{self.manager.console_address}{path}")

    def sees(self, text: str) -> None:
        """Wait until the page shows the text; do not reload the page."""
        self.page.get_by_text(re.compile(text)).first.wait_for()

    def is_accessible(self, name: str) -> None:
        """Check accessibility in light mode, in dark mode and on a phone; save screenshots."""
        for scheme in ("dark", "light"):
            self.page.emulate_media(color_scheme=scheme)
            self.page.screenshot(path=self._folder / f"{name}-{scheme}.png", full_page=True)
            found: dict[str, Any] = Axe().run(self.page).response
            serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
            assert serious == []
        usual = self.page.viewport_size
        assert usual is not None
        self.page.set_viewport_size({"width": PHONE, "height": 740})
        self.page.screenshot(path=self._folder / f"{name}-phone.png", full_page=True)
        assert self.page.evaluate("document.documentElement.scrollWidth") <= PHONE
        self.page.set_viewport_size(usual)


@pytest.fixture
def visit(
    crds: ControlPlane, namespace: str, run_manager: RunManager, browser: Browser, tmp_path: Path
) -> Iterator[Visit]:
    flags = (f"--namespaces={namespace}", "--controllers=foo,memcached")
    manager = run_manager(crds.kubeconfig, *flags).wait_ready()
    page = browser.new_page()
    visit = Visit(page, manager, tmp_path)
    yield visit
    page.close()
    assert visit.complaints == []


@pytest.mark.contract
def test_console_shows_failure_and_recovery_of_an_object_and_pauses_the_object(
    visit: Visit, crds: ControlPlane, namespace: str
):
    crds.api.create(foo_path(namespace), foo("lonely", "jack"))
    visit.open("/")
    visit.sees("Controllers")
    visit.is_accessible("overview")

    visit.page.get_by_role("link", name="Not ready").click()

    visit.page.get_by_role("link", name=f"{namespace}/lonely").wait_for()
    name = visit.page.get_by_role("searchbox", name="Name")
    name.fill("other")
    crds.api.create(foo_path(namespace), foo("other", "jack"))
    visit.page.get_by_role("link", name=f"{namespace}/other").wait_for()
    assert name.input_value() == "other"  # typed text that is not submitted stays
    visit.is_accessible("search")
    visit.page.get_by_role("link", name=f"{namespace}/lonely").click()
    visit.sees("What is wrong")
    visit.sees("There is no pod named jack")
    visit.is_accessible("object")

    # With the keyboard only: pause, and confirm the question.
    visit.page.locator("summary", has_text="Pause").focus()
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    visit.sees("does not reconcile the object until it is resumed")
    crds.api.create(f"/api/v1/namespaces/{namespace}/pods", pod("jack"))
    visit.page.locator("summary", has_text="Resume").click()
    visit.page.get_by_role("button", name="Resume").click()
    visit.sees("All is well")
    visit.sees("somebody on this machine resumed it in the console of foo")
    visit.is_accessible("mended")


@pytest.mark.contract
def test_console_live_update_keeps_opened_details_open(visit: Visit, crds: ControlPlane, namespace: str):
    crds.api.create(memcached_path(namespace), memcached("web", 0))
    eventually(lambda: crds.api.get(deployment_path(namespace, "web")))
    visit.open(f"/objects/memcacheds.cache.example.com/{namespace}/web")
    run = visit.page.locator("ol.runs details").last
    run.locator("summary").click()
    crds.api.patch(memcached_path(namespace, "web"), {"spec": {"image": "memcached:1.6"}})
    visit.sees("Memcached modified")
    visit.sees(r"spec\.template\.spec\.containers\[memcached\]\.image")
    assert visit.page.locator("ol.runs details[open]").count() == 1
    assert visit.page.locator("#current").text_content() == "live"


@pytest.mark.parametrize("path", ["/", "/search", "/objects/foos.tutorial.my.domain/{namespace}/lonely"])
def test_console_page_transfers_less_than_40_kb_and_only_its_css_blocks_rendering(
    visit: Visit, crds: ControlPlane, namespace: str, path: str
):
    crds.api.create(foo_path(namespace), foo("lonely", "jack"))
    eventually(lambda: crds.api.get(foo_path(namespace, "lonely"))["status"]["conditions"])
    visit.open(path.format(namespace=namespace))
    visit.page.get_by_text("live", exact=True).wait_for()  # the page is loaded completely
    loaded = visit.page.evaluate(
        """() => ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type))
             .map((it) => [it.name.replace(/.*[/]|[?].*/g, ""), it.transferSize, it.renderBlockingStatus])"""
    )
    assert [name for name, _, blocks in loaded if blocks == "blocking"] == ["console.css"]
    files = {name for name, _, _ in loaded if "." in name}
    assert files - {"icon.svg"} == {"console.css", "console.js", "idiomorph.min.js"}
    assert sum(size for _, size, _ in loaded) < 40_000
