"""What the server does by itself, beside the requests: controllers of its own, and what a cluster has from the start.

garbage_collector   deletes objects whose owners are gone
drain               empties namespaces and removed custom resources
disruption_budget   counts the pods of PodDisruptionBudgets
role_aggregation    keeps the rules of aggregated cluster roles up to date
definition_names    gives custom resource definitions the names that became free
event_expiry        deletes events after an hour
bootstrap           namespaces, priority classes, the service `kubernetes`, default roles
"""
