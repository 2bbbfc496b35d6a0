"""Knotwork."""
