"""What the floor keeps in the database, and the live things of the server that the admin shows as models."""

from typing import TYPE_CHECKING, Any, TypeVar

from django.db import models
from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from echomq_django.bus.row import Row

_M = TypeVar("_M", bound=models.Model)


class DeadJob(models.Model):
    """One death of one job, with all that a requeue needs: it works when the server has lost everything.

    `args` and `kwargs` are escaped copies for people; what runs again is `payload`, byte for byte. With the reason
    `unreadable`, `payload` holds what the server had under the job's key instead.
    """

    class State(models.TextChoices):
        """What has become of a death."""

        DEAD = "dead", _("dead")
        REQUEUED = "requeued", _("requeued")
        DISCARDED = "discarded", _("discarded")

    UNREADABLE = "unreadable"

    id = models.BigAutoField(primary_key=True)
    job_id = models.CharField(_("job"), max_length=64)
    death_key = models.CharField(_("death key"), max_length=64, help_text=_("The token of the lease that died."))
    death_no = models.PositiveIntegerField(_("death number"), default=0)
    backend = models.CharField(_("backend"), max_length=255)
    queue = models.CharField(_("queue"), max_length=64)
    lane = models.CharField(_("lane"), max_length=128, blank=True)
    task = models.CharField(_("task"), max_length=512, blank=True)
    payload = models.BinaryField(_("payload"), default=bytes)
    headers = models.JSONField(_("headers"), default=dict, blank=True)
    options = models.JSONField(_("options"), default=dict, blank=True)
    group = models.JSONField(_("group"), null=True, blank=True)
    isolate = models.BooleanField(_("runs alone"), default=False)
    args = models.JSONField(_("arguments"), null=True, blank=True)
    kwargs = models.JSONField(_("keyword arguments"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=64)
    error_class = models.CharField(_("error class"), max_length=255, blank=True)
    error_message = models.TextField(_("error message"), blank=True)
    traceback = models.TextField(_("traceback"), blank=True)
    fingerprint = models.CharField(_("fingerprint"), max_length=12, blank=True)
    attempts = models.PositiveBigIntegerField(_("attempts"), default=0)
    failures = models.PositiveIntegerField(_("failures"), default=0)
    stalled = models.PositiveIntegerField(_("stalls"), default=0)
    priority = models.SmallIntegerField(_("priority"), default=0)
    max_stalled = models.PositiveIntegerField(_("bound on stalls"), null=True, blank=True)
    lease_ms = models.PositiveBigIntegerField(_("lease (ms)"), default=30_000)
    enqueued_at = models.DateTimeField(_("enqueued"), null=True, blank=True)
    died_at = models.DateTimeField(_("died"))
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.DEAD)
    requeued_at = models.DateTimeField(_("requeued at"), null=True, blank=True)
    requeued_by = models.CharField(_("requeued by"), max_length=255, blank=True)
    discarded_at = models.DateTimeField(_("discarded at"), null=True, blank=True)
    discarded_by = models.CharField(_("discarded by"), max_length=255, blank=True)
    discard_reason = models.TextField(_("why discarded"), blank=True)

    class Meta:
        verbose_name = _("dead job")
        verbose_name_plural = _("dead jobs")
        default_permissions = ("view",)
        permissions = [("requeue_deadjob", "Can requeue dead job"), ("discard_deadjob", "Can discard dead job")]
        constraints = [
            models.UniqueConstraint(fields=["job_id", "death_key"], name="emq_dead_one_row_per_death"),
        ]
        indexes = [
            models.Index(fields=["-died_at"], name="emq_dead_died"),
            models.Index(fields=["state", "-died_at"], name="emq_dead_state"),
            models.Index(fields=["queue", "-died_at"], name="emq_dead_queue"),
            models.Index(fields=["reason", "-died_at"], name="emq_dead_reason"),
            models.Index(fields=["task", "-died_at"], name="emq_dead_task"),
            models.Index(fields=["error_class", "-died_at"], name="emq_dead_error_class"),
            models.Index(fields=["fingerprint", "-died_at"], name="emq_dead_fingerprint"),
        ]

    def __str__(self) -> str:
        return f"{self.task or _('unknown task')} {self.job_id} ({self.reason})"

    @property
    def is_readable(self) -> bool:
        """Whether a job can be made of it again."""
        return self.reason != self.UNREADABLE


class OutboxJob(models.Model):
    """What the server has yet to take: a parked push, or with a death key what an operator wants after that death.

    `extras` are those of the job. One that was discarded has `leaves` there: the group that is to count it as over. One
    that somebody called off has `cancelled`: it is not to run.
    """

    id = models.BigAutoField(primary_key=True)
    job_id = models.CharField(_("job"), max_length=64)
    death_key = models.CharField(_("death key"), max_length=64, blank=True)
    backend = models.CharField(_("backend"), max_length=255)
    queue = models.CharField(_("queue"), max_length=64)
    lane = models.CharField(_("lane"), max_length=128, blank=True)
    body = models.BinaryField(_("body"))
    priority = models.SmallIntegerField(_("priority"), default=0)
    max_stalled = models.PositiveIntegerField(_("bound on stalls"), null=True, blank=True)
    lease_ms = models.PositiveBigIntegerField(_("lease (ms)"))
    due_at = models.DateTimeField(_("due"), null=True, blank=True)
    attempts = models.PositiveBigIntegerField(_("attempts"), default=0)
    deaths = models.PositiveIntegerField(_("deaths"), default=0)
    enqueued_at = models.DateTimeField(_("enqueued"), null=True, blank=True)
    extras = models.JSONField(_("extras"), default=dict, blank=True)
    created_at = models.DateTimeField(_("parked"), auto_now_add=True)
    tries = models.PositiveIntegerField(_("refused pushes"), default=0)
    error = models.TextField(_("last error"), blank=True)

    class Meta:
        verbose_name = _("outbox job")
        verbose_name_plural = _("outbox jobs")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["job_id", "death_key"], name="emq_outbox_one_row_per_push"),
        ]
        indexes = [models.Index(fields=["backend", "tries", "id"], name="emq_outbox_next")]

    def __str__(self) -> str:
        return f"{self.job_id} ({self.backend}, {self.queue})"


class NothingStored(models.Manager[_M]):
    """The manager of a live model: no table is behind it, so that `dumpdata` and the like find it empty."""

    def get_queryset(self) -> models.QuerySet[_M]:
        """Return an empty queryset that never asks a database."""
        return super().get_queryset().none()


class Lease(models.Model):
    """The right of one holder to run one job, as read from the server a moment ago."""

    key = models.CharField(_("lease"), max_length=400, primary_key=True)
    job_id = models.CharField(_("job"), max_length=64)
    task = models.CharField(_("task"), max_length=512)
    backend = models.CharField(_("backend"), max_length=255)
    queue = models.CharField(_("queue"), max_length=64)
    lane = models.CharField(_("lane"), max_length=128)
    holder = models.CharField(_("holder"), max_length=40)
    fence = models.BigIntegerField(_("fence"))
    attempts = models.PositiveBigIntegerField(_("attempts"))
    stalled = models.PositiveIntegerField(_("stalls"))
    held_ms = models.BigIntegerField(_("held for"), null=True)
    left_ms = models.BigIntegerField(_("time left"), null=True)

    objects: NothingStored[Any] = NothingStored()

    row: "Row | None" = None

    class Meta:
        managed = False
        base_manager_name = "objects"
        verbose_name = _("lease")
        verbose_name_plural = _("leases")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.job_id} ({self.holder})"
