"""Restores a store from disk when a server starts: objects, history, and the server's indexes.

Called once, after all parts of the server listen to the store and before the first request.
"""

from __future__ import annotations

from collections.abc import Iterable

from bosket.apiserver.persistence.database import Database
from bosket.apiserver.persistence.row import Row
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.apiserver.store.store import Store


def restore(store: Store, database: Database, first: tuple[str, str]) -> None:
    """Fill an empty store. The objects of the resource `first` (group, plural) say how others are stored, so they
    are announced before those are read."""
    horizon = database.horizon
    definitions: list[Row] = []
    rows: list[Row] = []
    for row in database.rows():
        (definitions if (row.group, row.plural) == first else rows).append(row)
    store.begin_at(horizon)
    _refill(store, definitions, horizon)
    known = set(store.resources)
    _refill(store, rows, horizon)
    for resource in [
        each for each, resource_store in store.resources.items() if each not in known and not len(resource_store)
    ]:
        del store.resources[resource]  # of a definition that is gone: nobody will ask for this history
    store.version = max(store.version, *(part[-1].version for part in (definitions, rows) if part), 0)


def _refill(store: Store, rows: Iterable[Row], horizon: int) -> None:
    refilled: dict[ResourceStore, None] = {}
    for row in rows:
        resource_store = store.resource(row.group, row.plural)
        refilled[resource_store] = None
        resource_store.restore(
            row.document, row.version, creator=row.creator, deleted=bool(row.deleted), past=row.version <= horizon
        )
    for resource_store in refilled:
        for entry in list(resource_store.entries()):
            resource_store.announce(Event(resource_store, "ADDED", entry.version, entry, None))
