"""Studies: comparisons of encodings on data."""
