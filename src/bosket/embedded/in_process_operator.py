"""The operator of an embedded cluster: runs services in this process instead of Deployments.

The operator makes Deployments of a Config and of SchedulingShards. Here the same functions say what there should be,
and each Deployment becomes a service of this process, with the options that `bosket run` would make of its
arguments: a second shard has a second scheduler, a service that is switched off stops, other arguments start it anew.
Other settings of a shard are taken over by its scheduler as it runs. Conditions say what came of it in the operator's
words; where an operator works on the cluster, too, they are left to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import msgspec

from bosket.api.coordination import Lease
from bosket.api.kai.config import CONFIG_NAME, AdmissionConfig, Config, ConfigSpec, ConfigStatus
from bosket.api.kai.shard import PluginConfig, SchedulingShard, SchedulingShardSpec, SchedulingShardStatus
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.embedded.object_admission import ObjectAdmission
from bosket.embedded.services import ADMISSION, SERVICES
from bosket.kube.errors import KubeError
from bosket.kube.informer import Change, InformerBranch
from bosket.runtime.service import Environment, Service, run_services
from bosket.scheduler.loop import Scheduler
from bosket.scheduler.options import Options as SchedulerOptions
from bosket.services.admission.options import Options as AdmissionOptions
from bosket.services.admission.review_handlers import VALIDATE_POD_GROUPS, VALIDATE_QUEUES
from bosket.services.operator import shard as shard_part
from bosket.services.operator.check import config_problems, shard_problems
from bosket.services.operator.common import Common
from bosket.services.operator.condition import Findings, conditions
from bosket.services.operator.manifest import Manifest
from bosket.services.operator.operand import OPERANDS, webhook_configurations
from bosket.services.operator.options import Options as OperatorOptions
from bosket.services.operator.plan import plan
from bosket.services.operator.reconciler import LEASE_NAME, remaining_seconds
from bosket.services.operator.without_effect import config_notes, shard_notes

_log = logging.getLogger(__name__)

SCHEDULER: Final = "scheduler"
#: Services that a Config or a shard speaks of.
MANAGED: Final = frozenset({SCHEDULER, *(operand.service for operand in OPERANDS)})
_GATHER_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 5.0
#: Of the process, not of one service in it.
_FLAGS_OF_PROCESS: Final = ("--scheduler-config=", "--scheduler-config-map=", "--record")
_ONE_CLIENT: Final = "requests within the process aren't throttled"
_OWN_PROFILES: Final = "bosket profile takes one of the process, at the address that bosket up prints"
#: Arguments of a shard that say how the scheduler's process runs, and why that is nothing to a scheduler in this one.
_ARGUMENTS_OF_PROCESS: Final = {
    "burst": _ONE_CLIENT,
    "enable-profiler": _OWN_PROFILES,
    "log-level": "bosket up --log-level is the level of the whole process",
    "plugin-server-port": "bosket up --plugin-server-port is the port, of the default shard's scheduler",
    "profiler-port": _OWN_PROFILES,
    "pyroscope-address": "profiles of the embedded cluster aren't sent anywhere",
    "qps": _ONE_CLIENT,
    **dict.fromkeys(("record", "record-keep", "record-most"), "bosket up records, into the folder of its --record"),
}
_IN_PROCESS: Final = "services run in the process of the embedded cluster: settings of pods have no effect"


class Interpreter(Protocol):
    """What `bosket run` makes of arguments; given by the command line, which is above this."""

    def __call__(self, service: str, arguments: Sequence[str], configuration: str) -> object | None:
        """The options of a service, None for its default ones; `configuration` is the scheduler's file.

        Raises `ValueError` with a sentence for what can't be followed.
        """
        ...


def default_objects() -> tuple[Config, SchedulingShard]:
    """What KAI's chart installs; GPUs can be shared from the start, and the scheduler tells the order of jobs."""
    spec = ConfigSpec(admission=AdmissionConfig(gpuSharing=True))
    own = SchedulingShardSpec(plugins={"reflectjoborder": PluginConfig(enabled=True)})
    return (
        Config(metadata=ObjectMeta(name=CONFIG_NAME), spec=spec),
        SchedulingShard(metadata=ObjectMeta(name="default"), spec=own),
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """A service as a Deployment asks for it."""

    service: str
    arguments: tuple[str, ...]
    #: Of a scheduler: its file.
    configuration: str = ""


@dataclass(slots=True)
class _Running:
    wanted: Wanted
    service: Service
    options: object | None
    task: asyncio.Task[None]
    informers: InformerBranch
    #: Of a scheduler: the SchedulingShard that asks for it.
    shard: str


class InProcessOperator:
    """Runs the services that Config and shards ask for, until cancelled."""

    name = "config-and-shards"

    def __init__(
        self,
        env: Environment,
        *,
        chosen: Collection[str],
        given: Mapping[str, object],
        interpret: Interpreter,
        environment: Callable[[str, str], Environment],
        admission: ObjectAdmission | None,
    ) -> None:
        """`chosen`: services that may run; `given`: options that the command line has for some of them, which rule.

        `environment` makes one for a service, given its name and that of its Deployment, with an `InformerBranch`.
        """
        self._env, self._chosen, self._given, self._interpret = env, frozenset(chosen), given, interpret
        self._environment, self._admission = environment, admission
        self._configs = env.informers.of(Config)
        self._shards = env.informers.of(SchedulingShard)
        self._leases = env.informers.of(Lease, namespace=env.namespace)
        self._changed = asyncio.Event()
        #: By the name of the Deployment that an operator would make.
        self._running: dict[str, _Running] = {}
        self._admission_follows: tuple[Wanted, frozenset[str]] | None = None
        #: Services that the Config asks for, and that may not run here.
        self._left_out: set[str] = set()

        def changed(_change: Change[Config] | Change[SchedulingShard]) -> None:
            self._changed.set()

        self._configs.subscribe(changed)
        self._shards.subscribe(changed)

    async def start(self) -> None:
        """The first look, before the informers run: services are there when the cluster says that it is ready."""
        configs = (await self._env.client.list(Config)).items
        shards = (await self._env.client.list(SchedulingShard)).items
        config = next((each for each in configs if each.metadata.name == CONFIG_NAME), None)
        await self._reconcile(config, shards)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            for informer in (self._configs, self._shards, self._leases):
                await informer.wait_synced()
            while True:
                self._changed.clear()
                await self._reconcile(self._configs.store.get(ObjectKey("", CONFIG_NAME)), self._shards.store.values())
                await self._changed.wait()
                await self._env.clock.sleep(_GATHER_SECONDS)
        finally:
            await asyncio.gather(*(self._stop(name) for name in list(self._running)))

    async def _reconcile(self, config: Config | None, shards: Sequence[SchedulingShard]) -> None:
        if config is None:
            await self._run_only(self._operands(), {})
            self._follow_admission({}, frozenset())
            for each in shards:
                findings = Findings(absent=["nothing is deployed"], missing=[f"Config {CONFIG_NAME} doesn't exist"])
                await self._tell_shard(each, findings)
            there = {each.metadata.name for each in shards}
            await self._stop_schedulers_of_none(
                {each.shard: name for name, each in self._running.items() if each.shard in there}
            )
            return
        common = Common(config, OperatorOptions(), self._env.namespace)
        wrong = [str(each) for each in config_problems(config.spec, common.namespace)]
        problems = wrong or await self._follow_config(common, shards)
        notes = [*config_notes(common), _IN_PROCESS]
        if self._left_out:
            notes.append(f"not among the services of this cluster: {', '.join(sorted(self._left_out))}")
        await self._tell_config(config, Findings(problems=problems, notes=notes))
        await self._stop_schedulers_of_none({each.metadata.name: shard_part.name_of(each, common) for each in shards})
        for each in sorted(shards, key=lambda each: each.metadata.name):
            await self._follow_shard(each, common, shards, [f"Config {CONFIG_NAME}: {line}" for line in wrong])

    # --- the Config

    def _operands(self) -> set[str]:
        return {operand.name for operand in OPERANDS}

    async def _follow_config(self, common: Common, shards: Iterable[SchedulingShard]) -> list[str]:
        """Runs what the Config asks for; returns what it asks for in vain."""
        wanted = services_of(plan(common, shards))
        adjuster = common.config.spec.nodeScaleAdjuster
        by_name = adjuster is not None and adjuster.service is not None and adjuster.service.enabled
        allowed = self._chosen | ({"node-scale-adjuster"} if by_name else set())
        self._left_out = {each.service for each in wanted.values()} - allowed
        services = {each.service: each for each in wanted.values()}
        problems = self._follow_admission(services, _unregistered(common.config.spec))
        running = {name: each for name, each in wanted.items() if each.service in allowed and each.service != ADMISSION}
        return [*problems, *await self._run_only(self._operands(), running)]

    def _follow_admission(self, wanted: Mapping[str, Wanted], unregistered: frozenset[str]) -> list[str]:
        """The API server asks it in process: it has options, and no task.

        `unregistered`: paths of webhooks that the Config switches off.
        """
        if self._admission is None or ADMISSION in self._given:
            return []
        asked = wanted.get(ADMISSION)
        if asked is None:
            self._admission.follow(None)
            self._admission_follows = None
            return []
        if (asked, unregistered) == self._admission_follows:
            return []
        try:
            options = self._interpret(ADMISSION, asked.arguments, "")
        except ValueError as error:
            return [f"spec.admission: {error}"]
        self._admission_follows = asked, unregistered
        self._admission.follow(options if isinstance(options, AdmissionOptions) else AdmissionOptions(), unregistered)
        return []

    async def _tell_config(self, config: Config, findings: Findings) -> None:
        wanted = conditions(findings, config.status.conditions, config.metadata.generation, self._env.clock.now())
        if wanted == config.status.conditions or self._operator_works():
            return
        after = msgspec.structs.replace(config, status=ConfigStatus(conditions=wanted))
        try:
            self._configs.store.put(await self._env.client.modify(config, after, subresource="status"))
        except KubeError as error:
            _log.debug("the Config changed meanwhile", extra={"error": str(error)})

    # --- shards

    async def _follow_shard(
        self, found: SchedulingShard, common: Common, shards: Iterable[SchedulingShard], wrong: list[str]
    ) -> None:
        name = shard_part.name_of(found, common)
        notes = [*shard_notes(found, common), *process_notes(found.spec)]
        problems = wrong or [str(each) for each in shard_problems(found, common, shards)]
        if SCHEDULER not in self._chosen:
            notes.append(f"not among the services of this cluster: {SCHEDULER}")
        elif not problems:
            wanted = services_of(shard_part.objects(found, common, None))
            problems = await self._run_only({name}, wanted, shard=found.metadata.name)
            if SCHEDULER in self._given and not found.spec.partitionLabelValue:
                notes.append("its settings have no effect: the command line has others for this scheduler")
        await self._tell_shard(found, Findings(problems=problems, notes=notes))

    async def _stop_schedulers_of_none(self, names: Mapping[str, str]) -> None:
        """Those whose shard is gone, or has its scheduler under another name; `names`: by shard."""
        for name, each in list(self._running.items()):
            if each.shard and names.get(each.shard) != name:
                await self._stop(name)

    async def _tell_shard(self, found: SchedulingShard, findings: Findings) -> None:
        wanted = conditions(findings, found.status.conditions, found.metadata.generation, self._env.clock.now())
        if wanted == found.status.conditions or self._operator_works():
            return
        after = msgspec.structs.replace(found, status=SchedulingShardStatus(conditions=wanted))
        try:
            self._shards.store.put(await self._env.client.modify(found, after, subresource="status"))
        except KubeError as error:
            _log.debug("the shard changed meanwhile", extra={"error": str(error)})

    def _operator_works(self) -> bool:
        """Whether an operator looks after the conditions: one that holds its lease, or one in this process."""
        if "operator" in self._chosen:
            return True
        lease = self._leases.store.get(ObjectKey(self._env.namespace, LEASE_NAME))
        return lease is not None and remaining_seconds(lease, self._env.clock.now()) > 0

    # --- services

    async def _run_only(self, among: Collection[str], wanted: Mapping[str, Wanted], *, shard: str = "") -> list[str]:
        """Runs those of `wanted`, and none else `among`; returns what can't be followed, which goes on as it is."""
        for name in [each for each in self._running if each in among and each not in wanted]:
            await self._stop(name)
        problems = []
        for name, each in wanted.items():
            try:
                await self._run_as(name, each, shard)
            except ValueError as error:
                problems.append(f"{each.service}: {error}")
        return problems

    async def _run_as(self, name: str, wanted: Wanted, shard: str) -> None:
        known = self._running.get(name)
        if known is not None and known.wanted == wanted:
            return  # arguments take long to be understood
        options = self._options(wanted)
        if known is not None and known.options == options:
            known.wanted = wanted
            return
        if known is not None and isinstance(known.service, Scheduler) and _differ_in_configuration(known, options):
            after = options if isinstance(options, SchedulerOptions) else SchedulerOptions()
            known.service.reconfigure(after.configuration)
            known.wanted, known.options = wanted, options
            return
        if known is not None:
            await self._stop(name)
        env = self._environment(wanted.service, name)
        assert isinstance(env.informers, InformerBranch)
        service = SERVICES[wanted.service].make(env, options)
        running = run_services(env, [service], leader_election=False, stop_seconds=_STOP_SECONDS)
        task = asyncio.create_task(running, name=name)
        self._running[name] = _Running(wanted, service, options, task, env.informers, shard)

    def _options(self, wanted: Wanted) -> object | None:
        if wanted.service in self._given and not _partition(wanted):
            return self._given[wanted.service]
        return self._interpret(wanted.service, followed(wanted.arguments), wanted.configuration)

    async def _stop(self, name: str) -> None:
        running = self._running.pop(name)
        running.task.cancel()
        await asyncio.wait([running.task])
        running.informers.detach()
        if not running.task.cancelled() and (error := running.task.exception()) is not None:
            _log.error("failed while stopping", extra={"service": name, "error": str(error)}, exc_info=error)


def services_of(manifests: Iterable[Manifest]) -> dict[str, Wanted]:
    """Services by the name of their Deployment; a ConfigMap of the same name is a scheduler's file."""
    listed = list(manifests)
    files = {each["metadata"]["name"]: each["data"] for each in listed if each["kind"] == "ConfigMap"}
    found = {}
    for each in listed:
        if each["kind"] == "Deployment":
            name, (container,) = each["metadata"]["name"], each["spec"]["template"]["spec"]["containers"]
            text = files.get(name, {}).get("config.yaml", "")
            found[name] = Wanted(container["command"][-1], tuple(container["args"]), text)
    return found


def followed(arguments: Iterable[str]) -> list[str]:
    """The arguments of a Deployment that services in this process follow, too."""
    return [each for each in arguments if not each.startswith(_FLAGS_OF_PROCESS)]


def process_notes(spec: SchedulingShardSpec) -> list[str]:
    """Arguments of a shard that have an effect on a scheduler in a process of its own alone, each with the reason."""
    return [
        f"spec.args.{name}: has no effect in the embedded cluster: {_ARGUMENTS_OF_PROCESS[name]}"
        for name in sorted(spec.args.keys() & _ARGUMENTS_OF_PROCESS.keys())
    ]


def _unregistered(spec: ConfigSpec) -> frozenset[str]:
    """Paths of webhooks for which the operator makes no configuration: `webhooks.enableValidation: false`."""
    made = webhook_configurations(spec)
    switches = {VALIDATE_QUEUES: made.checks_queues, VALIDATE_POD_GROUPS: made.checks_pod_groups}
    return frozenset(path for path, is_on in switches.items() if not is_on)


def _partition(wanted: Wanted) -> str:
    flag = "--partition-label-value="
    return next((each.removeprefix(flag) for each in wanted.arguments if each.startswith(flag)), "")


def _differ_in_configuration(known: _Running, options: object | None) -> bool:
    """Whether a scheduler can become the other one as it runs."""
    before = known.options if isinstance(known.options, SchedulerOptions) else SchedulerOptions()
    after = options if isinstance(options, SchedulerOptions) else SchedulerOptions()
    return replace(before, configuration=after.configuration) == after
