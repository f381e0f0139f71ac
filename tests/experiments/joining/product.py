"""The product's taggers on the platforms of a tiny world."""

from dataclasses import replace

import torch
from tiny_world import NUM_CONTEXT, WORDS

from fedner.experiments.joining.kinds import Kind
from fedner.experiments.joining.world import World
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import EncodedCorpus, TagSpace, encode_corpus
from fedner.models.tagger import Tagger
from fedner.models.types import TypeVectors
from fedner.models.zoo import build_tagger


def space_of(world: World, name: str) -> TagSpace:
    return TagSpace.of(world.corpora[name].labels, "BIO")


def tagger_of(world: World, kind: Kind, name: str, seed: int = 0) -> Tagger:
    """Return the product's tagger for a platform, without dropout; its CRF is not zero."""
    corpus = world.corpora[name]
    described = tuple(corpus.descriptions[label] for label in corpus.labels)
    types = TypeVectors(corpus.labels, described, world.vectors[name].numpy(), "context")
    tagger = build_tagger(
        replace(kind.recipe(world), dropout=0.0),
        WordEmbedding(WORDS),
        space_of(world, name),
        NUM_CONTEXT,
        seed,
        types=types if kind.head == "described" else None,
    )
    generator = torch.Generator().manual_seed(seed)
    for weight in tagger.decoder.parameters():
        weight.data.normal_(generator=generator)
    return tagger


def encoded(world: World, name: str) -> EncodedCorpus:
    corpus = world.corpora[name]
    begin = int(world.sentences.starts_S[world.first[name]])
    end = begin + sum(len(each.tokens) for each in corpus.sentences)
    context = world.published.features_ND[begin:end, WORDS.dimension :]
    return encode_corpus(
        corpus.sentences,
        WordEmbedding(WORDS),
        space=space_of(world, name),
        context_TD=context,
    )
