"""How steps run: jobs, parts, clusters, sessions."""
