"""Admission webhooks, as the API server calls them.

hook      one webhook of a configuration, compiled; the table of all webhooks
review    AdmissionReview: request and response
caller    the HTTPS client (the one module that calls out over the network)
address   where a webhook is: a URL, or a service
dispatch  which webhooks are called for a request, in which order
"""
