"""One file per format that fedner writes."""
