"""Learning rules with heads: optional pointers, a head per slot, outcomes, processes."""
