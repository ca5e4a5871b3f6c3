"""``lbarn anomalies``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model, whole_number
from lbarn.cli.terminal import check_input, remark, show_json, show_lines
from lbarn.errors import deprecation

if TYPE_CHECKING:
    from lbarn._models.density import Density
    from lbarn.anomalies import Anomaly
    from lbarn.cli.data import InputRows

__all__ = ["anomalies"]


def anomalies(
    model: Model,
    data: Data,
    n_rows: Annotated[
        int, typer.Option("-n", "--n-rows", metavar="INT", parser=whole_number(1), help="How many rows.")
    ] = 10,
    n_values: Annotated[
        int, typer.Option(metavar="INT", parser=whole_number(1), help="How many cells of each, at most.")
    ] = 5,
    n_bits: Annotated[int | None, typer.Option(hidden=True, parser=whole_number(1))] = None,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """List the least likely rows and what is strange in them. Rows are counted from 0, without the header.

    \b
    lbarn anomalies people.lbarn others.csv -n 20
    lbarn anomalies model.lbarn test.csv --json | jq '.[].row'
    """
    if n_bits is not None:
        remark([f"lbarn: note: {deprecation('--n-bits', '--n-values')}"])
    check_input(model, data)
    from lbarn._models.wording import NOTABLE
    from lbarn.cli.data import input_rows, open_model

    opened = open_model(model, n_jobs, data)
    with input_rows(data, header, opened, "scoring") as rows:
        found = _least_likely(opened, rows, n_rows, n_bits or n_values)
    if as_json:
        show_json([{**one._asdict(), "values": [value._asdict() for value in one.values]} for one in found])
        return
    lines = []
    is_binary = opened.codebook_.is_binary
    for row, log_likelihood, values in found:
        lines.append(f"row {row}  log-likelihood {log_likelihood:.2f}")
        shown = [value for value in values if is_binary or value.excess > NOTABLE]
        if not shown:
            lines.append("    no single value stands out")
        for value in shown:
            rate = "" if value.base_rate is None else f", {value.base_rate:.2%} of all rows have it"
            if is_binary:
                lines.append(
                    f"    {value.column} = {value.value}  p = {value.probability:.2g}  ({value.surprise:.1f} nats{rate})"
                )
            else:
                lines.append(f"    {value.reason}  ({value.surprise:.1f} nats{rate})")
    show_lines(lines)


def _least_likely(model: Density, rows: InputRows, n_rows: int, n_values: int) -> list[Anomaly]:
    """As :func:`lbarn.anomalies.explain`; no more rows are kept than are asked for."""
    import numpy as np

    from lbarn._tables.table import take_rows
    from lbarn.anomalies import explain
    from lbarn.cli.data import stacked

    kept: Any = None
    scores, numbers = np.empty(0), np.empty(0, int)
    for batch in rows.complete():
        scores = np.concatenate([scores, model.score_samples(batch)])
        numbers = np.concatenate([numbers, np.arange(rows.start, rows.n_rows)])
        worst = np.sort(np.argsort(scores, kind="stable")[:n_rows])  # in the order of the file, as ties are
        kept = take_rows(batch if kept is None else stacked(kept, batch), worst)
        scores, numbers = scores[worst], numbers[worst]
    rows.start = 0
    return [one._replace(row=int(numbers[one.row])) for one in explain(model, kept, n_rows=n_rows, n_values=n_values)]
