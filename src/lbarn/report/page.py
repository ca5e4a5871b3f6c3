"""Reports as web pages: facts about a model and rows, put into a template."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

import lbarn
from lbarn._models.classifier import LBARNClassifier
from lbarn._models.density import Density
from lbarn._tables.writing import write_atomically
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.plots.columns import checked_shape
from lbarn.report.bits import facts as bit_facts
from lbarn.report.bits import page as bit_page
from lbarn.report.pictures import DARK, LIGHT
from lbarn.report.tables import facts as table_facts
from lbarn.report.tables import page as table_page
from lbarn.report.words import clean, short

__all__ = ["write_report"]


def write_report(
    model: Density | BernoulliMixture,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    image_shape: Sequence[int] | None = None,
    random_state: int = 0,
) -> None:
    """Write one HTML page about a model and rows of its kind.

    What the columns are, how well it fits, whether its probabilities are right, which columns depend on which, samples, the
    strangest rows and why, how it was trained. The page needs no network, and the same arguments give the same bytes.

    Parameters
    ----------
    model : fitted density
        An LBARN (loaded, trimmed or refitted ones too), an LBARNEnsemble, or one of ``lbarn.baselines``.
    X : table like the one that it was fitted on
        Rows that the model was *not* fitted on; cells may be empty. Log-likelihoods are those of all rows (of any table
        but one of bits, of a random 100,000 at most); columns and rows are compared with each other on a random 5000 at most.
    path : where to write
    title : str, optional
    image_shape : (rows, columns), optional
        If the columns are the pixels of a black-and-white image.
    random_state : int, default=0
        Seeds the choice of rows and the samples.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (400, 2)), 2, axis=1)
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.3, max_iter=60, random_state=0).fit(X[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, X[200:], Path(folder, "report.html"), title="Four bits")
    ...     page = Path(folder, "report.html").read_text(encoding="utf-8")
    >>> "<title>Four bits</title>" in page
    True
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder: {path} cannot be written there")
    if not isinstance(model, Density | BernoulliMixture):
        hint = "; write one for each of its networks_" if isinstance(model, LBARNClassifier) else ""
        raise ValueError(f"a report is about a density such as LBARN, not about a {type(model).__name__}{hint}")
    check_is_fitted(model)
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup, escape
        from matplotlib.figure import Figure  # noqa: F401  better missed now than after a long computation
    except ImportError as error:
        raise ImportError("a report is made with jinja2 and matplotlib; pip install 'lbarn[plots]'") from error
    shape = checked_shape(image_shape, model.n_features_in_)
    if isinstance(model, Density) and not (model.codebook_.is_binary and not model.codebook_.left_out):
        if shape is not None:
            raise ValueError("image_shape goes with a table of 0 and 1; this one has columns of other kinds")
        template, content = "table.html", table_page.sections(table_facts.collect(model, X, random_state))
    else:
        template, content = "bits.html", bit_page.sections(bit_facts.collect(model, X, shape, random_state))
    if title:
        content["title"] = title
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True)
    pages.filters |= {"clean": clean, "short": short}
    pages.filters["breakable"] = lambda name: escape(name).replace("_", Markup("_<wbr>"))
    text = pages.get_template(template).render(version=lbarn.__version__, light=LIGHT, dark=DARK, **content)
    write_atomically(path, text.encode("utf-8", errors="replace"))
