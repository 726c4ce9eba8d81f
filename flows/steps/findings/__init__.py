"""Graph and verdicts → what people should look at."""
