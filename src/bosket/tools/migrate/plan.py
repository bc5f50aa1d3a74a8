"""The plan: what becomes of everything, and the steps in the order in which they are taken.

Pods run on through all of it; from the moment in which KAI's scheduler is stopped until Bosket's runs, nothing new is
scheduled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from bosket.api.kai import PodGroup, Queue
from bosket.api.keys import CONFIG_NAME
from bosket.tools.doctor.bundle import Bundle
from bosket.tools.doctor.checks.deployment import kai_deployments
from bosket.tools.doctor.checks.lease import KAI_LEASES
from bosket.tools.doctor.diagnose import diagnose
from bosket.tools.doctor.finding import Severity, counted
from bosket.tools.doctor.installation import Installation
from bosket.tools.migrate.item import Item, Outlook
from bosket.tools.migrate.running import OPERATOR, kai_version, of_running
from bosket.tools.migrate.setting import of_settings
from bosket.tools.migrate.work import of_work

#: What the chart makes for a fresh cluster; where KAI was, all of it is there.
_KEPT_VALUES: Final = (
    "kaiConfig.render",
    "defaultShard.enabled",
    "defaultQueue.createDefaultQueue",
    "defaultPriorityClasses.enabled",
)
_ORDER: Final = {outlook: rank for rank, outlook in enumerate(Outlook)}


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do, and why it comes here."""

    title: str
    why: str
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What would change, and how to get there."""

    #: Of KAI, as its images say; empty if it doesn't run here.
    kai_version: str
    namespace: str
    items: tuple[Item, ...]
    steps: tuple[Step, ...]

    def count(self, outlook: Outlook) -> int:
        return sum(item.outlook is outlook for item in self.items)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "kaiVersion": self.kai_version,
            "namespace": self.namespace,
            "counts": {str(outlook): self.count(outlook) for outlook in Outlook},
            "items": [item.document() for item in self.items],
            "steps": [asdict(step) for step in self.steps],
        }


def plan_migration(bundle: Bundle) -> Plan:
    """What would change if Bosket took the cluster over from KAI."""
    installation = Installation(bundle)
    items = [*of_running(installation), *of_settings(installation), *of_work(installation)]
    items.sort(key=lambda item: _ORDER[item.outlook])  # stable: inside an outlook, in the order of the parts
    return Plan(
        kai_version=kai_version(installation),
        namespace=installation.namespace,
        items=tuple(items),
        steps=tuple(_steps(installation, items)),
    )


def _steps(installation: Installation, items: list[Item]) -> Iterator[Step]:
    running = [each.metadata.name for each in kai_deployments(installation) if each.spec.replicas != 0]
    schedulers = [name for name in running if name.startswith(installation.scheduler_name)]
    yield from _prepare(installation, items, schedulers)
    yield from _stop(installation.namespace, running, schedulers)
    yield from _start(installation)
    yield _clean_up(installation.namespace, items)


def _prepare(installation: Installation, items: list[Item], schedulers: list[str]) -> Iterator[Step]:
    errors = diagnose(installation.bundle).count(Severity.ERROR)
    found = counted(errors, "error") if errors else "nothing"
    yield Step(
        "look for what is wrong already",
        f"what doesn't work with KAI won't work after it; found now: {found}",
        ("bosket doctor",),
    )
    later = [OPERATOR, *schedulers]
    now = [item for item in items if item.outlook is Outlook.ACTION and not _is_stopping(item, later)]
    if now:
        commands = tuple(dict.fromkeys(item.command for item in now if item.command))
        yield Step(
            "do what the items that need action say", "Bosket would refuse or leave out what they name", commands
        )
    scheduler = schedulers[0] if schedulers else installation.scheduler_name
    yield Step(
        "write down how things stand",
        "to compare, and to go back; a snapshot also shows beforehand what Bosket would decide",
        (
            "kubectl get configs.kai.scheduler,schedulingshards,queues,podgroups.scheduling.run.ai,bindrequests,"
            "topologies.kai.scheduler -A -o yaml > before.yaml",
            f"kubectl port-forward -n {installation.namespace} deployment/{scheduler} 8081 & "
            "bosket snapshot -o before.zip && bosket replay before.zip",
        ),
    )


def _stop(namespace: str, running: list[str], schedulers: list[str]) -> Iterator[Step]:
    if OPERATOR in running:
        yield Step(
            "stop KAI's operator",
            "it would start again whatever is stopped next. Don't uninstall its chart: a hook deletes the Deployments "
            f"and the Config {CONFIG_NAME}",
            (f"kubectl scale -n {namespace} deployment/{OPERATOR} --replicas=0",),
        )
    if schedulers:
        yield Step(
            "stop KAI's schedulers, and let the binder finish",
            "from here on nothing new is scheduled; pods run on",
            (
                *(f"kubectl scale -n {namespace} deployment/{name} --replicas=0" for name in schedulers),
                "kubectl get bindrequests -A -o custom-columns=POD:.spec.podName,PHASE:.status.phase",
            ),
        )
    others = [name for name in running if name not in (OPERATOR, *schedulers)]
    if others:
        yield Step(
            "stop KAI's other services",
            "while admission is down, pods of the scheduler can't be created; all others can",
            (f"kubectl scale -n {namespace} --replicas=0 {' '.join(f'deployment/{name}' for name in others)}",),
        )


def _start(installation: Installation) -> Iterator[Step]:
    bundle = installation.bundle
    kept = f"{counted(len(bundle.of(Queue)), 'queue')}, {counted(len(bundle.of(PodGroup)), 'pod group')}"
    yield Step("bring the definitions up to date", f"objects stay as they are ({kept})", ("bosket crds --install",))
    without = "".join(f" --set {value}=false" for value in _KEPT_VALUES) if installation.config is not None else ""
    yield Step(
        "install Bosket",
        f"its operator takes the place of KAI's, follows {CONFIG_NAME} and the shards as they are, and deploys the "
        "services under the same names",
        (f"bosket manifests --skip-crds --namespace {installation.namespace}{without} | kubectl apply -f -",),
    )
    yield Step(
        "see that everything is in order", "every service holds its lease, every webhook answers", ("bosket doctor",)
    )


def _clean_up(namespace: str, items: list[Item]) -> Step:
    names = [item.object.rpartition("/")[2] for item in items]
    leases = " ".join(name for name in names if name in KAI_LEASES)
    return Step(
        "clean up when you are sure",
        "until then, upgrading KAI's chart brings it back. Helm's record of the release is removed without running its "
        "hooks",
        (
            *((f"kubectl delete lease -n {namespace} {leases}",) if leases else ()),
            f"kubectl delete secret -n {namespace} --ignore-not-found queue-webhook-tls-secret "
            "podgroup-webhook-tls-secret",
            f"kubectl delete secret -n {namespace} -l owner=helm,name=kai-scheduler",
        ),
    )


def _is_stopping(item: Item, names: list[str]) -> bool:
    """Whether an item has a step of its own."""
    return item.object.startswith("Deployment ") and item.object.rpartition("/")[2] in names
