"""GroveOperator: four controllers on one view of the cluster, and one for topologies."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from bosket.api.grove.operator_configuration import OperatorConfiguration
from bosket.grove.backends import GangBackends
from bosket.grove.operator.clique_controller import CliqueController
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.compute_domains import ComputeDomains
from bosket.grove.operator.gang_controller import GangController
from bosket.grove.operator.group_controller import GroupController
from bosket.grove.operator.set_controller import NAME as SET_CONTROLLER
from bosket.grove.operator.set_controller import SetController
from bosket.grove.operator.set_gangs import SetGangs
from bosket.grove.render.pod import InitProgram
from bosket.grove.topology.controller import TopologyController
from bosket.runtime.service import Environment, Service


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the Grove operator."""

    configuration: OperatorConfiguration = field(default_factory=OperatorConfiguration)
    #: The image of the init container that waits for those that start before.
    init_container_image: str = "grove-initc:latest"
    #: What it runs there; the image's own entry point, if empty.
    init_container_command: tuple[str, ...] = ()


NAME: Final = "grove-operator"


def service(env: Environment, options: Options | None = None) -> Service:
    """The Grove operator."""
    return GroveOperator(env, options or Options())


class GroveOperator:
    """Runs PodCliqueSets until cancelled."""

    name = NAME

    def __init__(self, env: Environment, options: Options) -> None:
        configuration = options.configuration
        #: the name of Grove's own lease, so that only one of the two operators works
        self.lease_name = configuration.leaderElection.resourceName
        default_scheduler = configuration.scheduler.defaultProfileName
        topology_aware = configuration.topologyAwareScheduling.enabled
        self._backends = GangBackends(env, default_scheduler)
        self._cluster = Cluster(env)
        gangs = SetGangs(
            self._cluster,
            self._backends,
            env.events.for_component(SET_CONTROLLER),
            topology_aware=topology_aware,
        )
        self._topologies = TopologyController(env, configuration.scheduler.names)
        controllers = configuration.controllers
        self._domains = ComputeDomains(
            env, env.events.for_component(SET_CONTROLLER), enabled=configuration.network.autoMNNVLEnabled
        )
        self._sets = SetController(
            env,
            self._cluster,
            gangs,
            self._domains,
            topology_aware=topology_aware,
            workers=controllers.podCliqueSet.concurrentSyncs,
        )
        self._gangs = GangController(env, self._cluster, gangs, workers=controllers.podGang.concurrentSyncs)
        self._groups = GroupController(env, self._cluster, workers=controllers.podCliqueScalingGroup.concurrentSyncs)
        self._cliques = CliqueController(
            env,
            self._cluster,
            self._backends,
            init_program=InitProgram(options.init_container_image, options.init_container_command),
            workers=controllers.podClique.concurrentSyncs,
        )

    async def run(self) -> None:
        """Until cancelled; may be called again after that."""
        await self._domains.check_served()
        await self._cluster.wait_synced()
        await self._backends.wait_ready()
        async with asyncio.TaskGroup() as group:
            for controller in (self._sets, self._gangs, self._groups, self._cliques, self._topologies, self._backends):
                group.create_task(controller.run())
