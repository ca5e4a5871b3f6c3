"""Neural density estimators at their published sizes, to hold a network against; PyTorch is needed for them alone.

``fit_rival("nade", train, valid, seconds=900)`` gives something with ``score_samples`` and ``info``.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rivals.training import Candidate, Density

__all__ = ["NAMES", "Rival", "fit_rival"]

NAMES = ("nade", "made", "eonade")
_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Rival:
    """A trained model. ``info`` has its choice, epochs, parameters, seconds and bytes."""

    model: Density
    threads: int
    info: dict[str, Any]

    def score_samples(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """log p(x) of every row, in nats, exactly."""
        import torch

        rows = torch.as_tensor(np.asarray(X, np.float32))
        with _threads(self.threads), torch.no_grad():
            return np.concatenate(
                [self.model.log_likelihood(part).double().numpy() for part in rows.split(_ROWS_AT_ONCE)]
            )


def fit_rival(
    name: str,
    train: NDArray[Any],
    valid: NDArray[Any],
    *,
    seconds: float,
    seed: int = 0,
    threads: int = 1,
    hidden: int = 500,
) -> Rival:
    """The candidate of a small grid that validates best; each is stopped early, and all together after ``seconds``."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("the neural rivals need PyTorch: pip install torch") from error
    from rivals.training import descend

    start = perf_counter()
    tensors = [torch.as_tensor(np.asarray(X, np.float32)) for X in (train, valid)]
    best: tuple[float, Density, dict[str, Any]] | None = None
    tried: list[dict[str, Any]] = []
    candidates = _candidates(name)
    with _threads(threads), torch.random.fork_rng():
        for i, candidate in enumerate(candidates):
            torch.manual_seed(seed)
            model = candidate.build(tensors[0], hidden)
            left = seconds - (perf_counter() - start)
            run = descend(model, *tensors, learning_rate=candidate.learning_rate, seconds=left / (len(candidates) - i))
            tried.append({"candidate": candidate.name, **run})
            if best is None or run["valid_log_likelihood"] > best[0]:
                best = run["valid_log_likelihood"], model, tried[-1]
    assert best is not None
    parameters = sum(p.numel() for p in best[1].parameters())
    info = {
        **best[2],
        "parameters": parameters,
        "bytes": 4 * parameters,
        "seconds": perf_counter() - start,
        "tried": tried,
    }
    return Rival(best[1], threads, info)


def _candidates(name: str) -> list[Candidate]:
    from rivals import eonade, made, nade

    modules = {"nade": nade, "made": made, "eonade": eonade}
    if name not in modules:
        raise ValueError(f"no rival {name!r}; there are {', '.join(NAMES)}")
    return modules[name].CANDIDATES


@contextmanager
def _threads(n: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
