"""The same small federation in fedner and in its peers: one task, one script for each engine."""
