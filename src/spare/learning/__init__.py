"""Learning rules from experience: section 4 of the paper."""
