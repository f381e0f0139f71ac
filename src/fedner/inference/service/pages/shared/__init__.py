"""What all pages look like, and how they speak with the service."""
