"""The taggers: embeddings, encoders, CRF, and the recipes that compose them."""
