"""Role-based access control, evaluated as in kube-apiserver.

    rule         one rule of a role: the requests that it allows, and whether rules cover other rules
    index        roles and bindings by subject; updated by the store's events
    authorizer   whether a user may make a request; cached until a role or a binding changes
    defaults     the roles and bindings that a cluster has from the start; aggregated cluster roles

The server authorizes the attributes of each parsed request before it looks up the kind. `handlers.reviews` answers
SubjectAccessReviews with the same authorizer.
"""

from bosket.apiserver.rbac.authorizer import MASTERS, Authorizer

__all__ = ["MASTERS", "Authorizer"]
