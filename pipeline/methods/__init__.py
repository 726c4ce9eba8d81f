"""One module per paper beyond the main method."""
