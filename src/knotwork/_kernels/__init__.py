"""Operations of the networks: each with its formula in plain torch and its faster paths.

Signatures and launches of kernels are laid out by hand: tensors, then numbers, then compile-time constants.
"""
