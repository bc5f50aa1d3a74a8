"""Who may change objects may not thereby make new ones: an update or apply that creates needs the verb `create`, too.

Part of admission: only there it is known that there was nothing to change. Who posts an object has been asked already,
and is asked again, which costs a look-up.
"""

from __future__ import annotations

from bosket.apiserver.entry import Doc
from bosket.apiserver.rbac.authorizer import MASTERS, Authorizer
from bosket.apiserver.request_info import Attributes
from bosket.apiserver.write import Write


class CreationCheck:
    """Refuses objects whose writer may not create them."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if old is not None or MASTERS in write.user.groups:
            return
        name = new["metadata"].get("name", "")
        asked = Attributes("create", write.kind.group, write.kind.plural, "", write.namespace, name)
        self._authorizer.check(write.user, asked)
