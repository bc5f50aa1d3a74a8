"""What KAI's Go code decided, replayed on Bosket. The recorded cases are beside the repository, not in it."""
