"""What people asked, what the bot did about it, and what was done to its workers.

The state of a job is not here: the queue knows it.
"""

from django.db import models


class Kind(models.TextChoices):
    """What the bot can be asked to do."""

    ECHO = "echo", "Echo"
    DIG = "dig", "Dig"
    STUMBLE = "stumble", "Stumble"
    POISON = "poison", "Poison"


class Command(models.Model):
    """What somebody asked the bot, and the id of the job that answers it."""

    job_id = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=16, choices=Kind)
    text = models.CharField(max_length=80)
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.text}"


class Start(models.Model):
    """One start of a handler. A job whose worker was killed has several; `step` tells how far each one came."""

    job_id = models.CharField(max_length=64, db_index=True)
    attempt = models.PositiveIntegerField()
    pid = models.PositiveIntegerField()
    step = models.PositiveSmallIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"start {self.attempt} of {self.job_id} in process {self.pid}"


class Reply(models.Model):
    """The effect of a job: one for each job, however often it starts."""

    job_id = models.CharField(max_length=64, unique=True)
    attempt = models.PositiveIntegerField()
    text = models.CharField(max_length=200)
    replied_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "replies"

    def __str__(self) -> str:
        return self.text


class Crash(models.Model):
    """A worker, or one process of it, that the page killed, and the jobs that it held."""

    pid = models.PositiveIntegerField()
    whole_worker = models.BooleanField()
    held = models.JSONField(help_text="JOB id -> its attempts at that moment")
    happened_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "crashes"

    def __str__(self) -> str:
        return f"process {self.pid} was killed with {len(self.held)} jobs"


class Sweep(models.Model):
    """What many sweepers at once made of expired leases: of as many with the script as with the loop beside it."""

    leases = models.PositiveIntegerField()
    sweepers = models.PositiveSmallIntegerField()
    script = models.JSONField()
    loop = models.JSONField()
    ran_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.sweepers} sweepers over {self.leases} leases"


class Race(models.Model):
    """One start of many jobs of a loud tenant, and few of quiet ones behind them."""

    started_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"race {self.pk}"


class Lap(models.Model):
    """One job of a race, which is over."""

    race = models.ForeignKey(Race, models.CASCADE)
    job_id = models.CharField(max_length=64, unique=True)
    track = models.CharField(max_length=16)
    tenant = models.CharField(max_length=16)
    finished_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.tenant} on {self.track}"
