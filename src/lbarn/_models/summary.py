"""What a notebook shows of a fitted model and of a conditional distribution."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lbarn._models.density import Density
    from lbarn._models.predicted import ConditionalDistribution

__all__ = ["conditional_html", "model_html"]

_OPEN = 20  # columns of which the table is open from the start
_ROWS = 5  # of a conditional that are shown
_LEVELS = 4  # of a category that are told
_BARS = 40
_LEFT = "style='text-align:left'"


def model_html(model: Density, explained: float | None) -> str:
    """What it is, how good, its columns and how to go on; ``explained`` are nats per row beyond independent columns."""
    columns = model.columns_
    parts = [
        f"<p><strong>{type(model).__name__}</strong> of {len(columns):,} columns: {model.distribution.n_trees:,} trees. "
        f"<code>{escape(' '.join(repr(model).split()))}</code></p>"
    ]
    if explained is not None and explained > 0:
        factor = np.exp(min(explained, 700.0))
        times = f"{factor:.1f}" if factor < 10 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"
        parts.append(
            f"<p>On held-out rows it is {explained:.2f} nats per row ahead of independent columns: a typical new row is "
            f"{times} times as likely as it would be if no column depended on another.</p>"
        )
    elif explained is not None:
        parts.append("<p>On held-out rows it is no better than independent columns.</p>")
    repeats = getattr(model, "repeats_", None)
    if repeats is not None:
        parts.append(
            f"<p>{repeats.share:.1%} of new rows are taken to repeat one of {len(repeats):,} rows that are kept in the model as they are.</p>"
        )
    is_open = " open" if len(columns) <= _OPEN else ""
    parts.append(f"<details{is_open}><summary>Columns</summary>{columns.to_html()}</details>")
    label = repr(columns[-1].name)
    lines = (
        ("model.sample(5)", "new rows; given={...} under conditions"),
        ("model.score(X)", "mean log-likelihood of rows, in nats"),
        (f"model.conditional(X, {label})", "a column given the others"),
        ("lbarn.explain(model, X)", "the least likely rows, and why"),
        ('lbarn.report.write_report(model, X, "report.html")', "everything on one page"),
        ('model.save("model.lbarn")', "lbarn.load brings it back"),
    )
    width = max(len(code) for code, _ in lines)
    code = "\n".join(f"{code:{width}}  # {what}" for code, what in lines)
    parts.append(f"<details><summary>How to go on</summary><pre>{escape(code)}</pre></details>")
    return f"<div class='lbarn-model'>{''.join(parts)}</div>"


def conditional_html(own: ConditionalDistribution) -> str:
    """The first rows: the likeliest levels, or mean, middle 90% and a picture of numbers."""
    head: tuple[str, ...]
    if own.kind in ("ordered", "continuous") and own.levels.dtype.kind == "f":
        head, cells = ("mean", "5%", "median", "95%", ""), _numbers(own)
    elif own.kind == "datetime":
        head, cells = ("5%", "median", "95%"), _dates(own)
    else:
        head, cells = ("likeliest",), _levels(own)
    headings = "".join(f"<th {_LEFT}>{one}</th>" for one in ("row", *head))
    body = "".join(f"<tr><td>{k}</td>{row}</tr>" for k, row in enumerate(cells))
    more = f"<p>and {len(own) - _ROWS:,} more rows</p>" if len(own) > _ROWS else ""
    title = f"<strong>{escape(str(own.name))}</strong> ({own.kind}) given the other columns"
    return f"<p>{title}</p><table><thead><tr>{headings}</tr></thead><tbody>{body}</tbody></table>{more}"


def _levels(own: ConditionalDistribution) -> list[str]:
    rows = []
    for chances in own.probability[:_ROWS]:
        likely = np.argsort(-chances, kind="stable")[:_LEVELS]
        told = ", ".join(f"{escape(str(own.levels[k]))} {chances[k]:.1%}" for k in likely)
        rows.append(f"<td {_LEFT}>{told}</td>")
    return rows


def _dates(own: ConditionalDistribution) -> list[str]:
    return ["".join(f"<td>{escape(str(one))}</td>" for one in row) for row in own.quantile([0.05, 0.5, 0.95])[:_ROWS]]


def _numbers(own: ConditionalDistribution) -> list[str]:
    figures = np.column_stack([own.mean(), own.quantile([0.01, 0.05, 0.5, 0.95, 0.99])])[:_ROWS]
    edges = np.linspace(figures[:, 1].min(), figures[:, -1].max(), _BARS + 1)
    upto = np.stack([own.between(-np.inf, edge)[:_ROWS] for edge in edges], axis=1)
    return [
        "".join(f"<td>{value:.6g}</td>" for value in row[[0, 2, 3, 4]]) + f"<td>{_picture(np.diff(shares))}</td>"
        for row, shares in zip(figures, upto)
    ]


def _picture(shares: NDArray[Any]) -> str:
    """Bars in the color of the text, so that they show on light and dark pages."""
    width, height = 4, 32
    top = max(float(shares.max()), 1e-300)
    bars = "".join(
        f"<rect x='{width * k}' y='{height - height * share / top:.1f}' width='{width - 1}' height='{height * share / top:.1f}'/>"
        for k, share in enumerate(shares.tolist())
    )
    size = f"width='{width * len(shares)}' height='{height}'"
    return f"<svg {size} fill='currentColor' role='img' aria-label='distribution'>{bars}</svg>"
