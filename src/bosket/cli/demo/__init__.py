"""`bosket demo`: a short story on an embedded cluster that shows what gangs and queues are."""
