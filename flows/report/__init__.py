"""What a run found, as JSON, text and a page; status; comparison."""
