"""What the buttons of the page send."""

from django import forms

from example_project.bot.models import Kind

USUAL_TEXT = {Kind.ECHO: "hello", Kind.DIG: "gold", Kind.STUMBLE: "a stone", Kind.POISON: "apple"}


class AskForm(forms.Form):
    """A command for the bot, to be given once or several times."""

    kind = forms.TypedChoiceField(choices=Kind.choices, coerce=Kind)
    text = forms.CharField(max_length=80, required=False)
    times = forms.IntegerField(min_value=1, max_value=20)

    def clean_text(self) -> str:
        """Return what to say to the bot; nothing stands for the usual."""
        return self.cleaned_data["text"] or USUAL_TEXT.get(self.cleaned_data.get("kind", Kind.ECHO), "")


class KillForm(forms.Form):
    """What is to be killed: the process that runs a job, or its whole worker."""

    what = forms.ChoiceField(choices=[("process", "Process"), ("worker", "Worker")])
