"""The settings that all operands of a Config share, with defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bosket.api import keys
from bosket.api.core import Affinity
from bosket.api.kai.config import Config, GlobalConfig
from bosket.api.kai.operand import K8sClientConfig
from bosket.install.workload_part import LOCKED_DOWN
from bosket.services.operator.manifest import Manifest
from bosket.services.operator.options import Options

#: Two, so that one may fail; a lease says which of them works.
DEFAULT_REPLICAS: Final = 2
#: KAI's.
DEFAULT_QPS: Final = 20
DEFAULT_BURST: Final = 100


@dataclass(frozen=True, slots=True)
class Common:
    """A Config's `global` section, and where it is deployed."""

    config: Config
    options: Options
    #: The operator's own, where everything is deployed.
    namespace: str = keys.SYSTEM_NAMESPACE

    @property
    def settings(self) -> GlobalConfig:
        return self.config.spec.global_ or GlobalConfig()

    @property
    def scheduler_name(self) -> str:
        return self.settings.schedulerName or keys.SCHEDULER_NAME

    @property
    def queue_label_key(self) -> str:
        return self.settings.queueLabelKey or keys.QUEUE_LABEL

    @property
    def node_pool_label_key(self) -> str:
        key = self.settings.nodePoolLabelKey
        return keys.NODE_POOL_LABEL if key is None else key

    @property
    def access_control(self) -> bool:
        """Whether the annotations of a queue say who may use it. Bosket's own: a Config has no field for it."""
        return self.config.metadata.annotations.get(keys.ACCESS_CONTROL_ANNOTATION) == "true"

    @property
    def scale_adjust_namespace(self) -> str:
        adjuster = self.config.spec.nodeScaleAdjuster
        arguments = adjuster.args if adjuster is not None else None
        return (arguments.nodeScaleNamespace if arguments is not None else None) or keys.SCALE_ADJUST_NAMESPACE

    def replicas(self, own: int | None) -> int:
        if own is not None:
            return own
        return DEFAULT_REPLICAS if self.settings.replicaCount is None else self.settings.replicaCount

    def arguments(self, port: int, client: K8sClientConfig | None) -> list[str]:
        """Those of every service: where it lives, where it can be asked, how it logs, how fast it may write.

        Services are as fast as the API server lets them, unless the Config bounds them; half a bound is completed by
        KAI's defaults.
        """
        log_format = "json" if self.settings.jsonLog else "human"
        said = [f"--namespace={self.namespace}", f"--listen=0.0.0.0:{port}", f"--log-format={log_format}"]
        if client is None or (client.qps is None and client.burst is None):
            return said
        return [*said, f"--qps={client.qps or DEFAULT_QPS}", f"--burst={client.burst or DEFAULT_BURST}"]

    def security_context(self) -> Manifest | None:
        """Of containers; OpenShift gives them one itself."""
        if self.settings.openshift:
            return None
        own = self.settings.securityContext
        return plain(own) if own is not None else LOCKED_DOWN

    def pull_secrets(self) -> list[Manifest]:
        settings = self.settings
        names = (*settings.additionalImagePullSecrets, settings.imagesPullSecret, self.options.image_pull_secret)
        return [{"name": name} for name in dict.fromkeys(filter(None, names))]

    def affinity(self, own: Affinity | None, app: str) -> Manifest:
        """The service's own, or else everybody's, and that replicas keep apart."""
        merged: Manifest = {**plain(self.settings.affinity), **plain(own)}
        apart: Manifest = {
            "labelSelector": {"matchLabels": {keys.APP_LABEL: app}},
            "topologyKey": "kubernetes.io/hostname",
        }
        terms = dict(merged.get("podAntiAffinity", {}))
        required = bool(self.settings.requireDefaultPodAntiAffinityTerm)
        name = f"{'required' if required else 'preferred'}DuringSchedulingIgnoredDuringExecution"
        term: Manifest = apart if required else {"weight": 100, "podAffinityTerm": apart}
        terms[name] = [*terms.get(name, ()), term]
        return {**merged, "podAntiAffinity": terms}


def plain(struct: Any) -> Any:
    """As it travels; an empty map for what is left out."""
    return {} if struct is None else msgspec.to_builtins(struct)
