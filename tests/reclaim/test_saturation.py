"""Afterwards the reclaimer's side must not be further over its fair share than the side that lost.

The reclaimer's own queue stays within its share in any case, so it is the queues above that are compared. Here they
have no over-quota weight: their fair shares are their quotas, whatever the cluster has.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from bosket.testing.build import job, node, queue
from bosket.testing.cluster import configured, decided, evictions


def lost(
    mine: int, theirs: int, *, my_share: int = 4, their_share: int = 4, gang: int = 1, multiplier: str = "1"
) -> int:
    """How many GPUs `their` department loses when a job of one GPU asks for it in `my` department.

    `mine` and `theirs` are the GPUs they hold; `gang` is the size of their youngest job.
    """
    decisions = decided(
        node("n1", gpus=mine + theirs, pods=200),
        [queue("my", quota=my_share, weight=0), queue("their", quota=their_share, weight=0)],
        [queue(name, parent="my", quota=8, weight=0) for name in ("my-a", "my-b")],
        queue("their-a", parent="their", quota=8, weight=0),
        job("x", mine, on="n1", queue="my-a", preemptibility="non-preemptible") if mine else [],
        [each for i in range(theirs - gang) for each in job(f"y{i}", on="n1", queue="their-a")],
        job("z", gang, on="n1", queue="their-a"),
        job("new", queue="my-b"),
        configuration=configured(
            "allocate", "reclaim", arguments={"proportion": {"relcaimerSaturationMultiplier": multiplier}}
        ),
    )
    return len(evictions(decisions))


@pytest.mark.parametrize(
    ("mine", "theirs", "options", "expected"),
    [
        pytest.param(3, 5, {"gang": 5}, 5, id="4/4 against 0/4: not over its share, so the other side doesn't matter"),
        pytest.param(4, 7, {}, 1, id="5/4 against 6/4: less over than the other"),
        pytest.param(4, 6, {}, 0, id="5/4 against 5/4: as much over as the other"),
        pytest.param(4, 7, {"multiplier": "1.2"}, 0, id="5/4 times 1.2 against 6/4: the multiplier makes them equal"),
        pytest.param(4, 8, {"multiplier": "1.2"}, 1, id="5/4 times 1.2 against 7/4"),
        pytest.param(4, 6, {"multiplier": "0.5"}, 0, id="a multiplier below 1 counts as 1"),
        pytest.param(0, 7, {"my_share": 0}, 0, id="1/0 against 6/4: infinitely over"),
        pytest.param(
            0, 7, {"my_share": 0, "their_share": 0}, 1, id="1/0 against 6/0: those that have no share don't count"
        ),
    ],
)
def test_the_reclaimer_stays_less_saturated_than_those_who_lose(
    mine: int, theirs: int, options: Mapping[str, Any], expected: int
) -> None:
    assert lost(mine, theirs, **options) == expected
