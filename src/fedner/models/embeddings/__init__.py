"""What a word becomes before the encoder sees it: word vectors, characters, context features."""
