"""The Grove operator: PodCliqueSets become PodCliques, scaling groups, gangs and pods.

What should exist is rendered by pure functions (`render_*`, `claim`), what is the case is said by others (`*_status`),
and what comes next by a third sort (`*_update`, `termination`). Around them are three controllers.
"""

from bosket.grove.options import Options
from bosket.grove.service import service

__all__ = ["Options", "service"]
