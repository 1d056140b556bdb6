"""The processes that claim jobs and run them. Knows no key of the server."""
