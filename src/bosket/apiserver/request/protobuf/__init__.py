"""Kubernetes' protobuf, in which typed Go clients (kubectl create, kube-scheduler) send request bodies.

    wire      bytes → numbered fields, within bounds
    schema    the table of messages: number, name and type of each field
    form      values that look different in JSON: times, quantities, schemas
    message   a body → the JSON that the same client would have sent

Only request bodies are read. Responses are JSON, which all of these clients accept beside protobuf.
"""

from bosket.apiserver.request.protobuf.message import MEDIA_TYPE, decode_protobuf

__all__ = ["MEDIA_TYPE", "decode_protobuf"]
