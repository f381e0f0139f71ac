"""Speed and memory as ratios against peers or against the bare computation, in the same run."""
