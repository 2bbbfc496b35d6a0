"""Backbones: networks trained as a stack of members, all at once."""
