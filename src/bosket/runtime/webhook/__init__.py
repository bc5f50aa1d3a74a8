"""Admission webhooks: the server side that several services share.

    verdict              the outcome of a review: refusals, warnings, a patch
    review               AdmissionReview: bytes in, bytes out
    server               HTTP over TLS around review functions, with limits
    serving_certificate  the server's certificate: generated, or read from a mounted Secret
    certificate_keeper   the Secret in which replicas share a generated certificate
    registration         webhook configurations: which requests the API server sends here
    service              all of these together

Review functions are pure and know nothing of HTTP; see `bosket.services.admission` and `bosket.grove.admission`.
"""
