"""What each service must be allowed to do, by the table that its roles are made of (`bosket.install`).

`collect` asks the API server about the service accounts that exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from bosket.install.right import Right, read_rights
from bosket.tools.doctor.bundle import AccessNeed
from bosket.tools.doctor.installation import Installation


@cache
def _rights() -> Mapping[str, frozenset[Right]]:
    return read_rights()


def needs_of(service_account: str, installation: Installation) -> Iterator[AccessNeed]:
    """What is asked about for this service account; nothing for one that isn't a service's."""
    namespaces = {
        "cluster": "",
        "own": installation.namespace,
        "reservation": installation.reservation_namespace,
        "scale": installation.scale_namespace,
    }
    for right in sorted(_rights().get(service_account, ())):
        yield AccessNeed(
            service_account, right.verb, right.group, right.resource, namespaces[right.scope], name=right.name
        )
