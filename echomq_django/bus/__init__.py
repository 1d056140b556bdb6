"""The Redis side: what a job is, and every move that it can make. Knows no Django."""
