"""The queue controller: writes into queues what is used and asked for there and below, and shows it in metrics."""

from bosket.services.queue.service import Options, service

__all__ = ["Options", "service"]
