"""Pool → graph."""
