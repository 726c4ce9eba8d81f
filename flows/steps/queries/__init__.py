"""A finished training and new rows → scores."""
