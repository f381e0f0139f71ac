"""A small web service of one machine: what `fedner serve` and other pages of fedner stand on."""
