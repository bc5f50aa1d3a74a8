"""Scenarios of Grove's own list of what must work, on a real control plane.

They are the tests of `tests.grove`, where each of the list runs on an embedded cluster in virtual time; here run those
that the table names. TAS21 and TAS22 are in `test_grove_admission`, which both servers run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final

import pytest
import pytest_asyncio

from bosket.install.account import ACCOUNTS
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import REAL
from tests.e2e.grove_world import Stage, enter_stage
from tests.grove import test_gang_scheduling as gang_scheduling
from tests.grove import test_on_delete as on_delete
from tests.grove import test_rolling_update as rolling_update
from tests.grove import test_shared_devices as shared_devices
from tests.grove import test_start_and_termination as termination
from tests.grove import test_topology_aware as topology
from tests.grove import test_topology_bindings as topology_bindings
from tests.grove.world import Worlds

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

Scenario = Callable[[Worlds], Awaitable[None]]


def _cases(test: Callable[[str, Worlds], Awaitable[None]], *cases: str) -> dict[str, Scenario]:
    return {case: partial(test, case) for case in cases}


SCENARIOS: Final[dict[str, Scenario]] = {
    **_cases(
        gang_scheduling.test_gangs_run_as_far_as_there_are_nodes_for_their_minimum,
        *(f"GS{number}" for number in (1, 2, 3, 5, 7, 8, 9, 10)),
    ),
    **_cases(termination.test_in_one_gang_all_of_a_clique_start_after_all_before_it, "SO1", "SO3"),
    **_cases(termination.test_each_replica_of_a_group_keeps_its_own_order, "SO2", "SO4"),
    **_cases(termination.test_a_gang_that_lost_a_pod_of_its_minimum_is_made_anew_as_a_whole, "GT1", "GT2"),
    "GT3": termination.test_a_clique_is_missed_only_when_it_is_below_its_minimum,
    "GT4": termination.test_a_replica_of_a_group_is_made_anew_alone_while_enough_others_are_left,
    "GT5": termination.test_a_replica_that_lost_all_pods_of_a_clique_is_made_anew,
    "cascade": termination.test_deleting_a_set_leaves_nothing_behind,
    "TAS1": topology_bindings.test_a_binding_makes_a_topology_with_its_labels_in_order_which_nodes_carry,
    "TAS17": topology_bindings.test_two_kinds_of_hardware_are_packed_each_by_its_own_labels,
    "TAS18": topology_bindings.test_a_binding_to_a_topology_that_is_not_there_has_drifted,
    "TAS19": topology_bindings.test_a_binding_whose_levels_change_makes_its_topology_anew,
    **_cases(topology.test_pods_are_packed_as_the_set_says, "TAS2", "TAS4", "TAS8", "TAS10", "TAS23"),
    "TAS13": topology.test_a_gang_that_no_rack_can_hold_waits_as_a_whole,
    "TAS20": topology.test_a_set_runs_without_its_binding_and_says_so,
    **_cases(rolling_update.test_one_pod_or_one_replica_of_a_group_is_replaced_at_a_time, "RU7", "RU8", "RU9"),
    "RU10": rolling_update.test_an_update_that_finds_no_node_stands_still,
    "RU13": rolling_update.test_a_set_may_be_scaled_in_after_an_update,
    "OD1": on_delete.test_nothing_is_deleted_and_the_update_counts_as_ended,
    "OD2 OD3": on_delete.test_a_deleted_pod_comes_back_new_and_old_ones_are_scaled_away_first,
    "OD4 OD5 OD6": on_delete.test_members_of_groups_are_changed_in_place_too,
    "RS1": shared_devices.test_claims_follow_the_replicas_of_whoever_shares_them,
    "MNNVL": shared_devices.test_domains_come_and_go_with_replicas,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(control_plane: ControlPlane) -> AsyncIterator[Stage]:
    async with enter_stage(control_plane.kubeconfig(), [each.service for each in ACCOUNTS]) as made:
        yield made


@pytest.mark.parametrize("ids", SCENARIOS)
async def test_a_scenario_of_groves_list(
    ids: str, stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    record_property("server", REAL)
    await SCENARIOS[ids](stage.world)
