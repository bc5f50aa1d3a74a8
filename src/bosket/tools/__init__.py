"""Tools beside the services: `doctor`, `migrate` and `simulate`."""
