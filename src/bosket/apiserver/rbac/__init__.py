"""Who may do what: role-based access control, evaluated as kube-apiserver does.

    attributes   a request as rules see it: verb, resource, name, or verb and path
    rule         one rule of a role; what it allows, and whether rules cover others
    index        roles and bindings, by subject; kept up to date by the store
    authorizer   may this user do that? remembered until a role or a binding changes
    creation     who may change may not thereby create
    escalation   nobody grants what they don't have
    aggregation  cluster roles that are made of others
    defaults     the roles and bindings that a cluster has from the start

`server.py` asks the authorizer before a request is understood any further, `reviews.py` lets clients ask it.
"""

from bosket.apiserver.rbac.attributes import Attributes, attributes_of
from bosket.apiserver.rbac.authorizer import MASTERS, Authorizer

__all__ = ["MASTERS", "Attributes", "Authorizer", "attributes_of"]
