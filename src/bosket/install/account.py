"""The service accounts: one for each service, by the names that KAI's operator gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bosket.api.keys import RESERVATION_SERVICE_ACCOUNT

#: What `bosket run` calls the program in reservation pods.
_RESERVATION: Final = "reservation"


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
    #: Runs only where the chart is told that the cluster grows and shrinks.
    only_when_scaling: bool = False

    @property
    def role_name(self) -> str:
        """Of its roles and bindings. Cluster roles are everybody's, so the name says whose this one is."""
        return self.name if self.name.startswith("kai-") else f"kai-{self.name}"


#: The one that deploys the others.
OPERATOR: Final = Account("kai-operator", "operator", "bosket.operator")

ACCOUNTS: Final = (
    Account("admission", "admission", "bosket.admission", also=("bosket.webhook",)),
    Account("binder", "binder", "bosket.binder"),
    Account("node-scale-adjuster", "node-scale-adjuster", "bosket.node_scale_adjuster", only_when_scaling=True),
    OPERATOR,
    Account("numa-placement-exporter", "numa-exporter", "bosket.numa_exporter"),
    Account("pod-grouper", "podgrouper", "bosket.podgrouper"),
    Account("podgroup-controller", "podgroup-controller", "bosket.podgroup_controller"),
    Account("queue-controller", "queue-controller", "bosket.queue_controller"),
    Account(RESERVATION_SERVICE_ACCOUNT, _RESERVATION, "bosket.reservation", in_reservation_namespace=True),
    Account("scheduler", "scheduler", "bosket.scheduler"),
)


def account_of(service: str) -> Account | None:
    """The account of what `bosket run` calls by that name."""
    return next((each for each in ACCOUNTS if each.service == service), None)
