"""Estimators: a table and a target in, predictions out."""
