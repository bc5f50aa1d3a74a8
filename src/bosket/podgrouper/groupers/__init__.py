"""One small grouper per family of kinds; `bosket.podgrouper.table` says which kind goes to which."""
