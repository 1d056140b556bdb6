"""The operators' screens; importing them registers them."""

from echomq_django.admin import dead_jobs, leases

__all__ = ["dead_jobs", "leases"]
