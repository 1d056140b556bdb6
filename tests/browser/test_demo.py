"""The page of the demo in Chromium: a job in hand is killed with its worker, and comes back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.running_demo import RunningDemo

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningDemo]:
    with RunningDemo("--no-postgres") as demo:
        yield demo


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.fixture
def page(browser: Browser, demo: RunningDemo, complaints: list[str]) -> Iterator[Page]:
    """The page in a window that notes each error and each warning of its console."""

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(demo.page)
        yield page


def test_a_job_in_hand_comes_back_after_its_worker_was_killed(page: Page, complaints: list[str]) -> None:
    page.get_by_role("button", name="Dig").click()
    in_hand, done = page.get_by_role("region", name="In hand"), page.get_by_role("region", name="Done")
    expect(in_hand.get_by_text("start 1")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Kill worker").click()
    expect(page.get_by_text("was killed while it held 1 job")).to_be_visible(timeout=PATIENCE_MS)
    expect(in_hand.get_by_text("start 2")).to_be_visible(timeout=PATIENCE_MS)
    expect(done.get_by_text("gold")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("started twice, one reply")).to_be_visible(timeout=PATIENCE_MS)
    assert complaints == []


def test_the_page_pauses_while_nobody_sees_it(page: Page) -> None:
    live = page.get_by_text("Live", exact=True)
    expect(live).to_be_visible()
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_text("Paused")).to_be_visible()
    page.evaluate("delete document.hidden")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(live).to_be_visible()


def test_the_page_works_without_javascript(browser: Browser, demo: RunningDemo) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(demo.page)
        page.get_by_label("Say something").fill("is it on?")
        page.get_by_role("button", name="Echo it").click()
        expect(page.get_by_role("table").get_by_text("is it on?", exact=True)).to_be_visible()
        page.get_by_role("link", name="Reload").click()
        expect(page.get_by_role("table").get_by_text("is it on?", exact=True)).to_be_visible()


def test_the_page_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
