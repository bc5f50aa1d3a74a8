"""One request: parsed, resolved to a kind, decoded; and the limits on the work that it causes.

request_info      the parsed request, whose attributes are authorized
resource_request  the request together with the kind that it is about
list_options      parameters of lists and watches
body              bodies of JSON, YAML or protobuf
protobuf/         Kubernetes' protobuf format
response          responses that are not objects; warnings
executor          runs work on large objects in threads
byte_budget       limits the bytes of large objects that are decoded at the same time
"""
