"""Controllers that others wrote run on the embedded server as they are; for longer: `python -m benchmarks foreign`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import assets
from tests.foreign.run import run

_SECONDS = 45.0


@pytest.mark.real
def test_foreign_controllers_do_their_work_on_the_embedded_server(tmp_path: Path) -> None:
    binaries = assets.find(print)
    if binaries is None:
        pytest.fail("the control plane is not built yet: `make e2e` does that, or `python -m tests.controlplane build`")
    outcome = run(binaries, tmp_path, _SECONDS)
    assert outcome.broken == []
    done = outcome.done.counts
    assert done["rounds"] >= 3
    assert done["jobs"] == done["namespaces"] == done["greetings"] == done["rounds"]
    assert done["elections"] == 1
