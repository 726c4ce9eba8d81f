"""Graph and annotations → matrices of annotators, and a consensus."""
