"""One module for each type of layer: forward, per-unit gradient and ONNX form beside each other."""

from fedner.models.layers.forms import DecoderForms, LayerForms, Missing, joined, trained_names
from fedner.models.layers.linear import tap_linear
from fedner.models.layers.table import DECODERS, LAYERS, register_layer

__all__ = [
    "DECODERS",
    "LAYERS",
    "DecoderForms",
    "LayerForms",
    "Missing",
    "joined",
    "register_layer",
    "tap_linear",
    "trained_names",
]
