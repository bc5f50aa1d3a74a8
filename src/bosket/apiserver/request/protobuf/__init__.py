"""Bodies in Kubernetes' protobuf, which typed Go clients (kubectl create, kube-scheduler) send; `body.py` calls this.

    wire      bytes → numbered fields, within bounds
    schema    the table of messages: which number is which field
    form      values that look different in JSON: times, quantities, schemas
    message   a message → the JSON that the same client would have sent
    envelope  the frame around an object, which says what it is

Only requests are read; answers are JSON, which all of these clients accept beside protobuf.
"""

from bosket.apiserver.request.protobuf.envelope import MEDIA_TYPE, decode_protobuf

__all__ = ["MEDIA_TYPE", "decode_protobuf"]
