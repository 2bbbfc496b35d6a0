"""Training of stacks of networks."""
