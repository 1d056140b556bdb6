"""A site with a strict content policy, and a browser that is logged in there and may complain of nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import Client
from playwright.sync_api import Page, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def strict_content_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Allow nothing inline and nothing from elsewhere."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "default-src 'self'"
        return response

    return middleware


@pytest.fixture
def site(emq: Settings, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the admin's site."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the browser's driver runs an event loop in this thread
    emq.MIDDLEWARE = [f"{__name__}.{strict_content_policy.__name__}", *emq.MIDDLEWARE]
    server = LiveServer("127.0.0.1")
    yield server.url
    server.stop()


@pytest.fixture
def ana(site: str, chromium: str) -> Iterator[Page]:
    """The browser of an operator with all permissions; the test fails if a page logs an error."""
    user = User.objects.create_user("ana", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="echomq_django"))
    client = Client()
    client.force_login(user)
    session: Any = {"name": django_settings.SESSION_COOKIE_NAME, "url": site}
    complaints: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=QUIET)
        context = browser.new_context(base_url=site, viewport={"width": 1400, "height": 900})
        context.add_cookies([session | {"value": client.cookies[django_settings.SESSION_COOKIE_NAME].value}])
        context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page = context.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
        connections.close_all()  # what a test opens while the driver's loop runs, nobody else would find to close
    assert complaints == []
