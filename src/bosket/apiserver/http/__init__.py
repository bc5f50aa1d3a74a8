"""The network listener: HTTP and TLS before the server."""
