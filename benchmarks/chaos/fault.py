"""What goes wrong: services killed and frozen, leases stolen, an API server that pauses or dies.

Each fault ends by itself: what was killed runs again, what was frozen goes on. How long a freeze lasts is drawn so that
some are shorter than a lease and some are longer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

from benchmarks.chaos.world import LEASES, World
from bosket.api.coordination import Lease
from bosket.api.time import format_micro_time
from bosket.kube.errors import KubeError
from bosket.runtime.clock import SystemClock


@dataclass
class Faults:
    """Chooses and carries out faults, one at a time."""

    world: World
    random: Random
    done: Counter[str] = field(default_factory=Counter)
    #: What ended without having been killed: a service must survive everything but that.
    deaths: list[str] = field(default_factory=list)

    async def strike(self) -> None:
        self._look_for_deaths()
        faults: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "kill -9": (6, self._kill),
            "SIGSTOP": (4, self._freeze),
            "stolen lease": (2, self._steal),
            "API server paused": (2, self._pause_server),
        }
        if self.world.server is not None:
            faults["API server killed"] = (1, self._kill_server)
        choice = self.random.choices(list(faults), [weight for weight, _ in faults.values()])[0]
        await faults[choice][1]()
        self.done[choice] += 1

    def _look_for_deaths(self) -> None:
        for each in self.world.programs:
            if each.ended_by_itself and each.process is not None:
                self.deaths.append(f"{each.name} ended by itself with code {each.process.returncode}: see {each.log}")
                each.process = None

    async def restart_dead(self) -> None:
        """A service that ended by itself is started again, as a Deployment would."""
        self._look_for_deaths()
        for each in self.world.programs:
            if each.process is None:
                await each.start()

    async def _kill(self) -> None:
        program = self.random.choice(self.world.programs)
        await program.kill()
        await asyncio.sleep(self.random.choice([0.0, 1.0, 5.0]))
        await program.start()

    async def _freeze(self) -> None:
        program = self.random.choice(self.world.programs)
        program.freeze()
        await asyncio.sleep(self.random.choice([2.0, 8.0, 12.0, 20.0]))
        program.thaw()

    async def _steal(self) -> None:
        """Somebody else says that the lease is theirs, once, and is never heard of again."""
        try:
            leases = (await self.world.client.list(Lease, LEASES)).items
            if not leases:
                return
            chosen = self.random.choice(leases)
            spec = {
                "holderIdentity": "thief",
                "renewTime": format_micro_time(SystemClock().now()),
                "leaseDurationSeconds": 5,
            }
            await self.world.client.patch(Lease, chosen.metadata.name, {"spec": spec}, namespace=LEASES)
        except (KubeError, OSError):
            return  # the server is busy; another time

    async def _pause_server(self) -> None:
        self.world.pause_server(True)
        await asyncio.sleep(self.random.choice([1.0, 4.0, 12.0]))
        self.world.pause_server(False)

    async def _kill_server(self) -> None:
        assert self.world.server is not None
        await self.world.server.kill()
        await self.world.server.start()
