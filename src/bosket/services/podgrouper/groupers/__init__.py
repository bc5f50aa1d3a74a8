"""One small grouper per family of kinds; `bosket.services.podgrouper.table` says which kind goes to which."""
