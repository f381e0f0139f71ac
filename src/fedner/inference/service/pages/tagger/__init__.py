"""The page that tries taggers, and the page of the service's own documentation."""
