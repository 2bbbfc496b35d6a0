"""The engine: one loop that trains a stack of networks."""
