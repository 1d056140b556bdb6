from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("key", models.CharField(max_length=400, primary_key=True, serialize=False, verbose_name="lease")),
                ("job_id", models.CharField(max_length=64, verbose_name="job")),
                ("task", models.CharField(max_length=512, verbose_name="task")),
                ("backend", models.CharField(max_length=255, verbose_name="backend")),
                ("queue", models.CharField(max_length=64, verbose_name="queue")),
                ("lane", models.CharField(max_length=128, verbose_name="lane")),
                ("holder", models.CharField(max_length=40, verbose_name="holder")),
                ("fence", models.BigIntegerField(verbose_name="fence")),
                ("attempts", models.PositiveBigIntegerField(verbose_name="attempts")),
                ("stalled", models.PositiveIntegerField(verbose_name="stalls")),
                ("held_ms", models.BigIntegerField(null=True, verbose_name="held for")),
                ("left_ms", models.BigIntegerField(null=True, verbose_name="time left")),
            ],
            options={
                "verbose_name": "lease",
                "verbose_name_plural": "leases",
                "managed": False,
                "default_permissions": ("view",),
                "base_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="DeadJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.CharField(max_length=64, verbose_name="job")),
                (
                    "death_key",
                    models.CharField(
                        help_text="The token of the lease that died.", max_length=64, verbose_name="death key"
                    ),
                ),
                ("death_no", models.PositiveIntegerField(default=0, verbose_name="death number")),
                ("backend", models.CharField(max_length=255, verbose_name="backend")),
                ("queue", models.CharField(max_length=64, verbose_name="queue")),
                ("lane", models.CharField(blank=True, max_length=128, verbose_name="lane")),
                ("task", models.CharField(blank=True, max_length=512, verbose_name="task")),
                ("payload", models.BinaryField(default=bytes, verbose_name="payload")),
                ("headers", models.JSONField(blank=True, default=dict, verbose_name="headers")),
                ("options", models.JSONField(blank=True, default=dict, verbose_name="options")),
                ("group", models.JSONField(blank=True, null=True, verbose_name="group")),
                ("isolate", models.BooleanField(default=False, verbose_name="runs alone")),
                ("args", models.JSONField(blank=True, null=True, verbose_name="arguments")),
                ("kwargs", models.JSONField(blank=True, null=True, verbose_name="keyword arguments")),
                ("reason", models.CharField(max_length=64, verbose_name="reason")),
                ("error_class", models.CharField(blank=True, max_length=255, verbose_name="error class")),
                ("error_message", models.TextField(blank=True, verbose_name="error message")),
                ("traceback", models.TextField(blank=True, verbose_name="traceback")),
                ("fingerprint", models.CharField(blank=True, max_length=12, verbose_name="fingerprint")),
                ("attempts", models.PositiveBigIntegerField(default=0, verbose_name="attempts")),
                ("failures", models.PositiveIntegerField(default=0, verbose_name="failures")),
                ("stalled", models.PositiveIntegerField(default=0, verbose_name="stalls")),
                ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
                ("max_stalled", models.PositiveIntegerField(blank=True, null=True, verbose_name="bound on stalls")),
                ("lease_ms", models.PositiveBigIntegerField(default=30000, verbose_name="lease (ms)")),
                ("enqueued_at", models.DateTimeField(blank=True, null=True, verbose_name="enqueued")),
                ("died_at", models.DateTimeField(verbose_name="died")),
                (
                    "state",
                    models.CharField(
                        choices=[("dead", "dead"), ("requeued", "requeued"), ("discarded", "discarded")],
                        default="dead",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("requeued_at", models.DateTimeField(blank=True, null=True, verbose_name="requeued at")),
                ("requeued_by", models.CharField(blank=True, max_length=255, verbose_name="requeued by")),
                ("discarded_at", models.DateTimeField(blank=True, null=True, verbose_name="discarded at")),
                ("discarded_by", models.CharField(blank=True, max_length=255, verbose_name="discarded by")),
                ("discard_reason", models.TextField(blank=True, verbose_name="why discarded")),
            ],
            options={
                "verbose_name": "dead job",
                "verbose_name_plural": "dead jobs",
                "permissions": [
                    ("requeue_deadjob", "Can requeue dead job"),
                    ("discard_deadjob", "Can discard dead job"),
                ],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["-died_at"], name="emq_dead_died"),
                    models.Index(fields=["state", "-died_at"], name="emq_dead_state"),
                    models.Index(fields=["queue", "-died_at"], name="emq_dead_queue"),
                    models.Index(fields=["reason", "-died_at"], name="emq_dead_reason"),
                    models.Index(fields=["task", "-died_at"], name="emq_dead_task"),
                    models.Index(fields=["error_class", "-died_at"], name="emq_dead_error_class"),
                    models.Index(fields=["fingerprint", "-died_at"], name="emq_dead_fingerprint"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job_id", "death_key"), name="emq_dead_one_row_per_death")
                ],
            },
        ),
        migrations.CreateModel(
            name="OutboxJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.CharField(max_length=64, verbose_name="job")),
                ("death_key", models.CharField(blank=True, max_length=64, verbose_name="death key")),
                ("backend", models.CharField(max_length=255, verbose_name="backend")),
                ("queue", models.CharField(max_length=64, verbose_name="queue")),
                ("lane", models.CharField(blank=True, max_length=128, verbose_name="lane")),
                ("body", models.BinaryField(verbose_name="body")),
                ("priority", models.SmallIntegerField(default=0, verbose_name="priority")),
                ("max_stalled", models.PositiveIntegerField(blank=True, null=True, verbose_name="bound on stalls")),
                ("lease_ms", models.PositiveBigIntegerField(verbose_name="lease (ms)")),
                ("due_at", models.DateTimeField(blank=True, null=True, verbose_name="due")),
                ("attempts", models.PositiveBigIntegerField(default=0, verbose_name="attempts")),
                ("deaths", models.PositiveIntegerField(default=0, verbose_name="deaths")),
                ("enqueued_at", models.DateTimeField(blank=True, null=True, verbose_name="enqueued")),
                ("extras", models.JSONField(blank=True, default=dict, verbose_name="extras")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="parked")),
                ("tries", models.PositiveIntegerField(default=0, verbose_name="refused pushes")),
                ("error", models.TextField(blank=True, verbose_name="last error")),
            ],
            options={
                "verbose_name": "outbox job",
                "verbose_name_plural": "outbox jobs",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["backend", "tries", "id"], name="emq_outbox_next")],
                "constraints": [
                    models.UniqueConstraint(fields=("job_id", "death_key"), name="emq_outbox_one_row_per_push")
                ],
            },
        ),
    ]
