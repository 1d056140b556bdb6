"""The page of the demo in Chromium: a job in hand is killed with its worker, and comes back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from tests.running_demo import RunningDemo

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def demo() -> Iterator[RunningDemo]:
    with RunningDemo("--no-postgres") as demo:
        yield demo


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(chromium: str, demo: RunningDemo, complaints: list[str]) -> Iterator[Page]:
    """The page in a window that notes each error and each warning of its console."""

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(demo.page)
        yield page
        browser.close()


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
