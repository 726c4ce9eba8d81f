"""From counts of neighbors' labels to a decision rule."""
