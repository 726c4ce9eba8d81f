"""Label values, candidates, and numbers and ids that are text."""
