"""Which code does the CRF's sums and maxima: by the device of the batch and what works there."""

import functools
import warnings
from importlib.util import find_spec

import torch
from torch import Tensor

from fedner.models import crf_numpy, crf_scan
from fedner.models.crf_chain import Chain, Posterior, log_space_posterior

MOST_TRITON_TAGS = 64  # beyond, K x K numbers no longer fit the registers of a Triton program


def posterior(chain: Chain) -> Posterior:
    """Return log-partition, marginals and expected steps of a batch."""
    if chain.emissions_BLK.device.type == "cpu":
        return crf_numpy.posterior(chain)
    if _suits_triton(chain):
        from fedner.models import crf_triton

        return crf_triton.posterior(chain)
    if chain.emissions_BLK.is_cuda and torch.cuda.is_current_stream_capturing():
        # The scan asks the host whether its numbers are exact, which a recording cannot; in a
        # recording the many small kernels of the loop are cheap.
        return log_space_posterior(chain)
    return crf_scan.posterior(chain)


def best_paths(chain: Chain) -> tuple[Tensor, Tensor]:
    """Return (B, L) the best tags, 0 behind a sentence's end, and (B,) their scores in float64."""
    if chain.emissions_BLK.device.type == "cpu":
        return crf_numpy.best_paths(chain)
    if _suits_triton(chain):
        from fedner.models import crf_triton

        return crf_triton.best_paths(chain)
    return crf_scan.best_paths(chain)


def _suits_triton(chain: Chain) -> bool:
    device = chain.emissions_BLK.device
    return device.type == "cuda" and len(chain.start_K) <= MOST_TRITON_TAGS and triton_works(device)


@functools.cache
def triton_works(device: torch.device) -> bool:
    """Return whether Triton compiles and runs on `device`, by trying once.

    Triton may be installed and yet fail: it needs a C compiler, Python's headers and a recent GPU.
    """
    if find_spec("triton") is None:
        return False
    try:
        from fedner.models import crf_triton

        scores = torch.zeros(1, 2, 2, device=device)
        lengths_B = torch.full((1,), 2, device=device)
        chain = Chain(scores, scores[0, 0], scores[0, 0], scores[0], lengths_B)
        return bool(crf_triton.posterior(chain).marginals_BLK.eq(0.5).all())
    except Exception as error:  # noqa: BLE001 - whatever Triton raises, plain torch takes over
        warnings.warn(
            f"CRF: Triton does not work on {device} ({error}); plain torch takes its place",
            stacklevel=2,
        )
        return False
