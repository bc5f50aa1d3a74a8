"""Keeping the store on disk.

A directory (`directory.py`) holds a SQLite database (`database.py`), which a thread writes in groups (`journal.py`) and
from which a store is filled again (`restore.py`).
"""
