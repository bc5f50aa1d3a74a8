"""Controllers of the server itself, and what a cluster has from the start.

    garbage_collector   deletes objects whose owners are gone
    content_deletion    deletes the contents of namespaces and of definitions that are being deleted
    disruption_budget   counts the pods of PodDisruptionBudgets
    role_aggregation    updates the rules of aggregated cluster roles
    naming_controller   gives custom resource definitions the names that became free
    event_expiry        deletes events after an hour
    bootstrap           creates namespaces, priority classes, the service `kubernetes`, default roles

Controllers write with `own_write`, which skips admission and rules.
"""
