"""The fixture `world`: a server in this process."""

from __future__ import annotations

import pytest

from tests.apiserver.world import World


@pytest.fixture
async def world() -> World:
    return World()
