"""Noise rates and transition matrices from neighbors' labels."""
