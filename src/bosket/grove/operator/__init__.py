"""Grove's operator: PodCliqueSets become PodCliques, scaling groups, gangs and pods.

`bosket.grove.render` says what should exist and `bosket.grove.status` what does; `set_update`, `group_update` and
`clique_update` say what comes next. Around them are four controllers: sets, scaling groups, cliques and gangs.
"""

from bosket.grove.operator.service import Options, service

__all__ = ["Options", "service"]
