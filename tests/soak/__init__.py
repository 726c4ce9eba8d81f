"""Long life: many scheduled scorings against one server, worker and cluster."""
