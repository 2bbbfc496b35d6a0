"""Reports: what studies found, in tables and pictures."""
