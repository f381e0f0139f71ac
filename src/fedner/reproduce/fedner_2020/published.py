"""The numbers that Ge et al. 2020 published: Tables 1 and 2. Figures were not read off by eye."""

from typing import NamedTuple


class Six(NamedTuple):
    """Strict and relaxed F1, precision and recall, in percent."""

    strict_f1: float
    strict_precision: float
    strict_recall: float
    relaxed_f1: float
    relaxed_precision: float
    relaxed_recall: float


TABLE2: dict[str, dict[str, Six]] = {
    "cadec": {
        "CNN-CRF": Six(56.46, 55.29, 57.68, 78.80, 80.09, 77.55),
        "LSTM-CRF": Six(56.77, 56.13, 57.42, 79.79, 77.77, 81.92),
        "GRAM-CNN": Six(55.92, 55.08, 56.79, 80.66, 81.16, 80.17),
        "CNN-LSTM-CRF": Six(59.30, 60.51, 58.14, 81.46, 82.96, 80.01),
        "S-LSTM-CRF": Six(60.59, 61.34, 59.86, 81.59, 79.71, 83.56),
        "CNN-CLSTM-CRF": Six(60.14, 61.02, 59.29, 81.94, 81.14, 82.75),
        "ELMoNER": Six(63.86, 63.03, 64.71, 83.66, 84.05, 83.27),
        "FedNER": Six(65.16, 66.45, 63.92, 84.55, 84.23, 84.87),
    },
    "ade": {
        "CNN-CRF": Six(61.46, 59.84, 63.17, 71.60, 65.21, 79.38),
        "LSTM-CRF": Six(62.27, 61.13, 63.45, 74.59, 67.92, 82.71),
        "GRAM-CNN": Six(72.36, 68.78, 76.33, 81.86, 75.00, 90.10),
        "CNN-LSTM-CRF": Six(73.04, 68.64, 78.04, 83.50, 80.88, 86.30),
        "S-LSTM-CRF": Six(76.42, 77.09, 75.76, 84.48, 81.59, 87.58),
        "CNN-CLSTM-CRF": Six(78.83, 77.32, 80.40, 84.36, 83.81, 84.92),
        "ELMoNER": Six(81.62, 78.34, 85.19, 87.44, 85.22, 89.79),
        "FedNER": Six(82.57, 80.22, 85.06, 88.90, 88.39, 89.42),
    },
    "smm4h": {
        "CNN-CRF": Six(31.23, 37.94, 26.54, 56.39, 60.43, 52.86),
        "LSTM-CRF": Six(30.96, 36.58, 26.84, 58.85, 63.77, 54.63),
        "GRAM-CNN": Six(26.11, 28.99, 23.75, 60.94, 67.12, 55.80),
        "CNN-LSTM-CRF": Six(27.65, 34.85, 22.92, 61.99, 79.89, 50.64),
        "S-LSTM-CRF": Six(32.12, 40.77, 26.50, 62.79, 70.93, 56.33),
        "CNN-CLSTM-CRF": Six(30.95, 38.84, 25.72, 63.69, 70.32, 58.20),
        "ELMoNER": Six(31.51, 39.21, 26.34, 65.45, 80.32, 55.23),
        "FedNER": Six(32.69, 41.84, 26.82, 67.81, 74.27, 63.38),
    },
}


def table2(platform: str, model: str, measure: str) -> float | None:
    """Return what Table 2 has for a model on a corpus; None where it has nothing."""
    found = TABLE2.get(platform, {}).get(model)
    return None if found is None else getattr(found, measure, None)
