"""Operations of the networks: each with its formula in plain torch and its faster paths."""
