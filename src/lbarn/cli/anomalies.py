"""``lbarn anomalies``"""

from __future__ import annotations

from typing import Annotated

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model
from lbarn.cli.terminal import check_input, show, show_json, waiting

__all__ = ["anomalies"]


def anomalies(
    model: Model,
    data: Data,
    n_rows: Annotated[int, typer.Option("-n", "--n-rows", help="How many rows.")] = 10,
    n_bits: Annotated[int, typer.Option(help="How many cells of each.")] = 5,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """List the least likely rows and what is strange in them.

    \b
    lbarn anomalies model.lbarn test.csv -n 20
    lbarn anomalies model.lbarn test.csv --json | jq '.[].row'
    """
    check_input(model, data)
    from lbarn.anomalies import explain
    from lbarn.cli.openedmodel import OpenedModel

    opened = OpenedModel.open(model, n_jobs)
    rows = opened.complete_rows(data, header)
    with waiting("scoring"):
        found = explain(opened.network, rows, n_rows=n_rows, n_bits=n_bits)
    found = [
        one._replace(bits=[bit._replace(column=opened.column_name(int(bit.column))) for bit in one.bits])
        for one in found
    ]
    if as_json:
        show_json([{**one._asdict(), "bits": [bit._asdict() for bit in one.bits]} for one in found])
        return
    lines = []
    for row, log_likelihood, bits in found:
        lines.append(f"row {row}  log-likelihood {log_likelihood:.2f}")
        lines += [
            f"    {bit.column} = {bit.value}  p = {bit.probability:.2g}  ({bit.surprise:.1f} nats)" for bit in bits
        ]
    show("\n".join(lines))
