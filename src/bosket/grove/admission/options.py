"""Options of Grove's admission, beside the operator's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from bosket.api.grove.naming import WEBHOOK_SERVICE
from bosket.api.grove.operator_configuration import OperatorConfiguration


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the webhooks of Grove's operator."""

    configuration: OperatorConfiguration = field(default_factory=OperatorConfiguration)
    #: How the API server reaches them: a URL without a path, or, if empty, the service below.
    url: str = ""
    service_name: str = WEBHOOK_SERVICE
    #: The operator's service account in its namespace, which may change what the authorizer protects.
    service_account: str = "grove-operator"
    #: Whether webhook configurations that aren't there are made; otherwise somebody makes them, to be filled in.
    creates_configurations: bool = True
    #: How often certificate and registration are looked after.
    upkeep_seconds: float = 60.0
