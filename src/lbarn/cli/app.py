"""The commands of ``lbarn`` together, and what is said when one of them fails."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from lbarn.cli.anomalies import anomalies
from lbarn.cli.compare import compare
from lbarn.cli.compress import compress, decompress
from lbarn.cli.demo import demo
from lbarn.cli.explore import explore
from lbarn.cli.fit import fit
from lbarn.cli.impute import denoise, impute
from lbarn.cli.inspect import inspect
from lbarn.cli.predict import predict
from lbarn.cli.report import report
from lbarn.cli.sample import sample
from lbarn.cli.score import score
from lbarn.cli.terminal import show

__all__ = ["app", "run"]

app = typer.Typer(
    rich_markup_mode=None,  # rich's tables cut the names of options at 80 columns
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
)
_COMMANDS = (
    fit,
    score,
    sample,
    predict,
    impute,
    denoise,
    anomalies,
    compress,
    decompress,
    inspect,
    report,
    compare,
    explore,
    demo,
)
for _command in _COMMANDS:
    app.command()(_command)


@app.callback(invoke_without_command=True)
def _lbarn(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Learn the distribution of the rows of any table, and use it.

    \b
    lbarn fit people.csv -o people.lbarn
    lbarn sample people.lbarn -n 1000 --given "age=30..40" -o new.csv
    lbarn predict people.lbarn others.csv --column income
    lbarn score people.lbarn others.csv --mean
    lbarn report people.lbarn --data others.csv -o report.html
    """
    if version:
        from lbarn import __version__

        show(f"lbarn {__version__}")
    elif context.invoked_subcommand is None:
        show(context.get_help())


def run() -> tuple[Any, str | None]:
    """The exit code of the command that the arguments name, and what was wrong, if anything was."""
    warnings.simplefilter("ignore")  # what a user should know is said in the terms of the command line
    try:
        return app(prog_name="lbarn", standalone_mode=False), None
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        why = error.format_message() + (f" (see {context.command_path} --help)" if context else "")
    except ImportError as error:
        why = str(error) if "pip install" in str(error) else f"{error}; pip install 'lbarn[all]'"
    except MemoryError as error:
        why = f"not enough memory ({error})"
    except (ValueError, OSError, OverflowError) as error:
        why = str(error)
    return 2, why
