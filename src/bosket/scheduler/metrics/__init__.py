"""The scheduler's metrics, by KAI's names."""
