"""Faults brought upon real worker processes; also the app whose handlers these workers run."""
