"""The world of Grove's scenarios: here, an embedded cluster in virtual time."""

from __future__ import annotations

import pytest

from tests.grove.world import Worlds
from tests.grove.world import world as embedded_world


@pytest.fixture
def world() -> Worlds:
    return embedded_world
