"""What services are made of: reconcilers on work queues, leader election, events, metrics, logs, health, time."""
