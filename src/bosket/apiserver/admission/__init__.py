"""Admission: what completes or refuses a write before it is stored.

chain             all steps in kube-apiserver's order
attributes        one request as webhooks and policies see it
builtin           the server's own: namespaces, priorities, service accounts, RuntimeClass
authorization     who updates must be allowed to create; who grants a role must hold it
matching          rules and selectors of webhooks and policies
match_condition   CEL conditions of webhooks and policies
policy/           ValidatingAdmissionPolicy
webhook/          mutating and validating webhooks
"""
