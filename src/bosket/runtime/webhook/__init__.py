"""Webhooks that an API server asks about what is written: what the judges of several services have in common.

verdict              what is said about an object: refusals, warnings, changes
review               AdmissionReview: bytes in, bytes out
server               HTTP over TLS around judges, with bounds on everything
serving_certificate  what is shown to API servers; certificate_keeper: how replicas agree on it
registration         how an API server is told whom to ask
service              all of these together, kept up

Judges are pure and know nothing of this; `bosket.services.admission` and `bosket.grove.admission` have theirs.
"""
