"""Files, on this host or in a store: how they are written, and where they lie."""
