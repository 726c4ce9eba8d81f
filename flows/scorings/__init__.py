"""Sources scored with a training: one of them, or a folder that files keep arriving in."""
