"""Visits to the admin: who comes, and what they read there."""

import re
from html import unescape
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client


def logged_in(name: str, *permissions: str, **options: Any) -> Client:
    """Return the browser of a staff user who has nothing but the permissions named."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(**options)
    client.force_login(user)
    return client


def text_of(response: Any) -> str:
    """Return what a reader sees, without tags."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", response.content.decode())))


def said(response: Any) -> list[str]:
    """Return the messages on a page."""
    return [str(message) for message in response.context["messages"]]


def has_inline_code(response: Any) -> bool:
    """Tell whether a strict content policy would block a part of the page."""
    return bool(re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", response.content.decode()))
