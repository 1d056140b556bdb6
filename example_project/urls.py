"""The bot's page, and the admin."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("admin/", admin.site.urls),
    path("favicon.ico", RedirectView.as_view(url=static("bot/icon.svg"))),
    path("", include("example_project.bot.urls")),
]
