"""What a report shows besides the rates."""
