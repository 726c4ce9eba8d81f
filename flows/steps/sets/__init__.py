"""Graph → predictions, where labels are candidate sets; features that such sets correct."""
