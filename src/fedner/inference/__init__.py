"""What a trained tagger is used for: predictions over texts of any size."""
