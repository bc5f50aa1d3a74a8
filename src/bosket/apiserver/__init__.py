"""The embedded Kubernetes API server."""

from bosket.apiserver.server.api_server import ApiServer

__all__ = ["ApiServer"]
