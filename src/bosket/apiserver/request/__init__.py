"""One request: parsed, resolved to a kind, decoded; and what limits the work on it.

request_info  the parsed request; the authorizer judges its attributes
call          the request together with the kind that it is about
list_options  parameters of lists and watches
body          bodies of JSON, YAML or Kubernetes' protobuf
answer        responses that are not objects
aside         work on large objects, in threads
byte_budget   limit on the bytes of large objects that are worked on at once
protobuf/     Kubernetes' protobuf format
"""
