"""Snapshot files in KAI's form: written, redacted and read."""
