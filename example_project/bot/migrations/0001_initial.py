from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Command",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.CharField(max_length=64, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("echo", "Echo"), ("dig", "Dig"), ("stumble", "Stumble"), ("poison", "Poison")],
                        max_length=16,
                    ),
                ),
                ("text", models.CharField(max_length=80)),
                ("asked_by", models.CharField(max_length=150)),
                ("asked_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Crash",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("pid", models.PositiveIntegerField()),
                ("whole_worker", models.BooleanField()),
                ("held", models.JSONField(help_text="JOB id -> its attempts at that moment")),
                ("happened_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "crashes",
            },
        ),
        migrations.CreateModel(
            name="Reply",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.CharField(max_length=64, unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("text", models.CharField(max_length=200)),
                ("replied_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "replies",
            },
        ),
        migrations.CreateModel(
            name="Start",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.CharField(db_index=True, max_length=64)),
                ("attempt", models.PositiveIntegerField()),
                ("pid", models.PositiveIntegerField()),
                ("step", models.PositiveSmallIntegerField(default=0)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Race",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("started_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Sweep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("leases", models.PositiveIntegerField()),
                ("sweepers", models.PositiveSmallIntegerField()),
                ("script", models.JSONField()),
                ("loop", models.JSONField()),
                ("ran_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Lap",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.CharField(max_length=64, unique=True)),
                ("track", models.CharField(max_length=16)),
                ("tenant", models.CharField(max_length=16)),
                ("finished_at", models.DateTimeField(auto_now_add=True)),
                ("race", models.ForeignKey(on_delete=models.CASCADE, to="bot.race")),
            ],
        ),
    ]
