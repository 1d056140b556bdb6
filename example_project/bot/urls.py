"""The page, its live state, and what its buttons do."""

from django.urls import path

from example_project.bot import views

app_name = "bot"
urlpatterns = [
    path("", views.page, name="page"),
    path("state.json", views.state, name="state"),
    path("ask/", views.ask, name="ask"),
    path("kill/", views.kill, name="kill"),
    path("sweep/", views.sweep, name="sweep"),
    path("race/", views.start_race, name="race"),
]
