"""The service accounts: one for each service, by the names that KAI's operator and Grove's chart give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bosket.api.keys import RESERVATION_SERVICE_ACCOUNT

#: What `bosket run` calls the program in reservation pods.
_RESERVATION: Final = "reservation"
_GROVE: Final = "grove-"
_BACKENDS: Final = "bosket.grove.backends"


@dataclass(frozen=True, slots=True)
class Account:
    """Who a service is to the API server."""

    #: The ServiceAccount.
    name: str
    #: What `bosket run` calls the service.
    service: str
    #: The package whose code acts as this account.
    package: str
    #: Packages of several services whose code it runs, too.
    also: tuple[str, ...] = ()
    #: Runs in reservation pods, and so in their namespace; the others run where the services do.
    in_reservation_namespace: bool = False
    #: Installed only where the chart's values enable autoscaling.
    only_when_scaling: bool = False
    #: The one scheduler that it tells about gangs, where it does that for one alone.
    backend: str = ""

    @property
    def role_name(self) -> str:
        """Of its roles and bindings. Cluster roles are everybody's, so the name says whose this one is."""
        return self.name if self.name.startswith(("kai-", _GROVE)) else f"kai-{self.name}"

    @property
    def is_grove(self) -> bool:
        """Whether the account is for Grove's services, which the chart itself deploys, and only where values enable
        them."""
        return self.name.startswith(_GROVE)


#: The one that deploys the others.
OPERATOR: Final = Account("kai-operator", "operator", "bosket.services.operator")

#: Schedulers whose gangs a process of its own may see to: `bosket run backend-kai`.
BACKENDS: Final = ("default", "kai", "koordinator", "volcano", "yunikorn")
GROVE_OPERATOR: Final = Account(
    "grove-operator",
    "grove-operator",
    "bosket.grove.operator",
    also=("bosket.grove.topology", "bosket.grove.backends.cluster_view"),
)
GROVE_ADMISSION: Final = Account(
    "grove-admission", "grove-admission", "bosket.grove.admission", also=("bosket.runtime.webhook",)
)
GROVE_BACKENDS: Final = Account("grove-backends", "grove-backends", _BACKENDS)
GROVE_BACKENDS_APART: Final = tuple(
    Account(f"grove-backend-{name}", f"backend-{name}", _BACKENDS, backend=name) for name in BACKENDS
)

ACCOUNTS: Final = (
    Account("admission", "admission", "bosket.services.admission", also=("bosket.runtime.webhook",)),
    Account("binder", "binder", "bosket.services.binder"),
    GROVE_ADMISSION,
    *GROVE_BACKENDS_APART,
    GROVE_BACKENDS,
    GROVE_OPERATOR,
    Account("node-scale-adjuster", "node-scale-adjuster", "bosket.services.node_scale", only_when_scaling=True),
    OPERATOR,
    Account("numa-placement-exporter", "numa-exporter", "bosket.services.numa"),
    Account("pod-grouper", "podgrouper", "bosket.services.podgrouper"),
    Account("podgroup-controller", "podgroup-controller", "bosket.services.podgroup"),
    Account("queue-controller", "queue-controller", "bosket.services.queue"),
    Account(RESERVATION_SERVICE_ACCOUNT, _RESERVATION, "bosket.services.reservation", in_reservation_namespace=True),
    Account("scheduler", "scheduler", "bosket.scheduler"),
)


def account_of(service: str) -> Account | None:
    """The account of what `bosket run` calls by that name."""
    return next((each for each in ACCOUNTS if each.service == service), None)
