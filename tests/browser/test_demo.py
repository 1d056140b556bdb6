"""The page of the demo in Chromium: what jobs go through is seen as it happens, and works without scripts too."""

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
        visit(page, demo)
        yield page


def visit(page: Page, demo: RunningDemo) -> None:
    """Open the page and wait until it is live: what happened before is nothing that it would light."""
    page.goto(demo.page)
    expect(page.get_by_text("Live", exact=True)).to_be_visible(timeout=PATIENCE_MS)


def expect_lit(page: Page, edge: str) -> None:
    """Expect the diagram to light a move, as it does for a moment."""
    expect(page.locator(f"[data-edge={edge}][data-lit]")).to_have_count(1, timeout=PATIENCE_MS)


def test_a_job_in_hand_comes_back_after_its_worker_was_killed(page: Page, complaints: list[str]) -> None:
    page.get_by_role("button", name="Dig").click()
    in_hand, done = page.get_by_role("region", name="In hand"), page.get_by_role("region", name="Done")
    expect_lit(page, "claim")
    expect(in_hand.get_by_text("start 1")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("1 active is in the hands of a worker")).to_be_visible()
    expect(page.locator(".ring .left[data-renewed]")).to_have_count(1, timeout=PATIENCE_MS)
    page.get_by_role("button", name="Kill worker").click()
    expect(page.get_by_text("was killed while it held 1 job")).to_be_visible(timeout=PATIENCE_MS)
    expect_lit(page, "recover")
    expect(in_hand.get_by_text("start 2")).to_be_visible(timeout=PATIENCE_MS)
    expect_lit(page, "finish")
    expect(page.get_by_text("no leases")).to_be_visible()
    expect(done.get_by_text("gold")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("started twice, one reply")).to_be_visible(timeout=PATIENCE_MS)
    assert complaints == []


def test_the_diagram_shows_a_job_fail_be_tried_again_and_die(page: Page) -> None:
    page.get_by_role("button", name="Stumble").click()
    for edge in ("enqueue", "retry", "due", "die"):
        expect_lit(page, edge)


def test_nothing_moves_for_those_who_want_no_motion(browser: Browser, demo: RunningDemo) -> None:
    with browser.new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        visit(page, demo)
        page.get_by_role("button", name="Echo it").click()
        expect_lit(page, "finish")
        assert page.evaluate("document.getAnimations().length") == 0


def test_sweeps_and_race_show_their_numbers_side_by_side(page: Page, complaints: list[str]) -> None:
    page.get_by_role("button", name="Let them sweep").click()
    reported = page.get_by_role("row", name="Taken back, say the sweepers").get_by_role("cell")
    expect(reported.first).to_have_text("1000", timeout=PATIENCE_MS)
    assert int(reported.last.inner_text()) > 1000
    page.get_by_role("button", name="Start the race").click()
    with_lanes = page.get_by_role("region", name="A lane for each")
    expect(with_lanes.get_by_text("The quiet tenants waited")).to_be_visible(timeout=PATIENCE_MS)
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
