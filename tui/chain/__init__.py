"""The page of one causal chain, and the list of all problems."""
