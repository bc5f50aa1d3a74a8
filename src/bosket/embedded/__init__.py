"""A whole cluster in one process: API server, controllers, simulated nodes and any of Bosket's services."""
