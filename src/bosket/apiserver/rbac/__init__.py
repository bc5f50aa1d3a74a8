"""Who may do what: role-based access control, evaluated as kube-apiserver does.

    rule         one rule of a role; what it allows, and whether rules cover others
    index        roles and bindings, by subject; kept up to date by the store
    authorizer   may this user do that? remembered until a role or a binding changes
    creation     who may change may not thereby create
    escalation   nobody grants what they don't have
    aggregation  cluster roles that are made of others
    defaults     the roles and bindings that a cluster has from the start

`server.py` has the authorizer judge the attributes of each parsed request (`request_info.py`) before the kind is looked
up; `reviews.py` lets clients ask it.
"""

from bosket.apiserver.rbac.authorizer import MASTERS, Authorizer

__all__ = ["MASTERS", "Authorizer"]
