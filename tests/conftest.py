"""What holds for every test."""

from __future__ import annotations

import asyncio

from hypothesis import settings

# How long an example takes says something about the machine, not about the code.
settings.register_profile("bosket", deadline=None)
settings.load_profile("bosket")

# pytest-asyncio asks for the current loop before it has made one. Without this line Python 3.11 answers with a new
# loop, which nobody closes and whose collection is a warning, and so an error, in whatever test happens to run then.
asyncio.set_event_loop(None)
