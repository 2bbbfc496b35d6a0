"""Estimators for tables, and which encoding to start with."""
