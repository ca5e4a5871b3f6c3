"""Any table on the command line, through the real executable: files as people have them, conditions, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import lbarn
from test_cli import EXECUTABLE, peak, refused, run

pytestmark = pytest.mark.skipif(not EXECUTABLE.exists(), reason=f"there is no {EXECUTABLE}")

QUICK = ("--max-iter", "20", "--learning-rate", "0.3", "--max-leaf-nodes", "4", "--random-state", "0")
N = 300


def people(seed: int = 0, n: int = N) -> list[dict[str, Any]]:
    """A category, whole numbers with gaps, a number with decimals, a date, 0 and 1, true and false; and an identifier."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        sex = rng.choice(["Female", "Male"])
        age = rng.randint(18, 70)
        hours = round(rng.gauss(40 if sex == "Male" else 34, 6), 1)
        rows.append(
            {
                "number": i + 1,
                "name": f"n{seed}-{i}",
                "sex": sex,
                "age": "" if rng.random() < 0.1 else age,
                "hours": hours,
                "education": rng.choice(["Bachelors", "Masters", "HS-grad", "?"]),
                "since": f"20{10 + age // 10}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}",
                "member": int(hours > 38),
                "retired": str(age > 60),
            }
        )
    return rows


def text_of(rows: list[dict[str, Any]], columns: list[str] | None = None, **how: Any) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, columns or list(rows[0]), extrasaction="ignore", lineterminator="\n", **how)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


def read_back(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


MODELLED = ["sex", "age", "hours", "education", "since", "member", "retired"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    (path / "people.csv").write_bytes(text_of(people()))
    (path / "others.csv").write_bytes(text_of(people(1, 80)))
    done = run("fit", path / "people.csv", "-o", path / "people.lbarn", *QUICK)
    (path / "told.txt").write_bytes(done.stderr)
    return path


def test_fit_tells_what_columns_became_and_how_good_the_model_is(folder: Path) -> None:
    told = (folder / "told.txt").read_text()
    lines = {line.split("  ")[0]: line for line in told.splitlines()}
    assert lines["number"].split()[1:] == ["left", "out", "counts", "the", "rows"]
    assert "every value is another string" in lines["name"]
    assert "categorical  Female, Male" in lines["sex"]
    assert "ordered" in lines["age"]
    assert "18 to 70" in lines["age"]
    assert "%" in lines["age"]
    assert "0.1" in lines["hours"]
    assert "?, Bachelors, HS-grad, Masters" in lines["education"]  # ? is a level among strings
    assert "datetime" in lines["since"]
    assert "day" in lines["since"]
    assert "binary       0, 1" in lines["member"]
    assert "binary       False, True" in lines["retired"]
    assert "--column name=categorical" in told
    gain = lbarn.load(folder / "people.lbarn")
    assert gain.codebook_.left_out.keys() == {0, 1}
    numbers = next(line for line in told.splitlines() if "independent columns" in line)
    model, alone = (float(word) for word in numbers.replace(":", "").split() if word.startswith("-"))
    assert numbers.endswith(f"the model explains {model - alone:.2f} nats") or abs(model - alone) < 5
    assert model > alone


def test_the_numbers_of_a_fit_are_those_of_held_out_rows(folder: Path) -> None:
    """Of a table of 0 and 1, the curves of training are another way to them."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (400, 5))
    bits[:, 4] = bits[:, 0] ^ bits[:, 1]
    np.save(folder / "bits.npy", bits)
    done = run(
        "fit", folder / "bits.npy", "-o", folder / "bits.lbarn", *QUICK, "--no-sharpen", "--repeats", "no", "--json"
    )
    told = json.loads(done.stdout)
    assert told["held_out"] == pytest.approx(told["log_likelihood"]["valid"], abs=1e-6)
    assert told["log_likelihood"]["independent"] == pytest.approx(-5 * np.log(2), abs=0.05)


def test_samples_have_the_columns_and_the_look_of_the_file(folder: Path) -> None:
    found = read_back(run("sample", folder / "people.lbarn", "-n", "50", "--random-state", "0").stdout)
    assert list(found[0]) == MODELLED
    for row in found:
        assert row["sex"] in ("Female", "Male")
        assert row["age"] == "" or 18 <= int(row["age"]) <= 70
        assert float(row["hours"]) == round(float(row["hours"]), 1)
        assert len(row["since"]) == 10
        assert row["member"] in ("0", "1")
        assert row["retired"] in ("True", "False")


CONDITIONS: dict[str, Any] = {
    "sex=Female": lambda row: row["sex"] == "Female",
    "age=40": lambda row: row["age"] == "40",
    "age=30..40": lambda row: 30 <= int(row["age"]) <= 40,
    "age=60..": lambda row: int(row["age"]) >= 60,
    "hours=..30.5": lambda row: float(row["hours"]) <= 30.5,
    "age=20|30|40": lambda row: row["age"] in ("20", "30", "40"),
    "education=Bachelors|Masters": lambda row: row["education"] in ("Bachelors", "Masters"),
    "education=?": lambda row: row["education"] == "?",
    "since=2014-01-01..2015-12-31": lambda row: "2014-01-01" <= row["since"] <= "2015-12-31",
    "member=1": lambda row: row["member"] == "1",
    "retired=true": lambda row: row["retired"] == "True",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_row_meets_the_condition(condition: str, folder: Path) -> None:
    done = run(
        "sample",
        folder / "people.lbarn",
        "-n",
        "30",
        "--given",
        condition,
        "--given",
        "hours=20..60" if "hours" not in condition else "sex=Male",
    )
    found = read_back(done.stdout)
    assert len(found) == 30
    assert all(map(CONDITIONS[condition], found))
    assert all(20 <= float(row["hours"]) <= 60 for row in found) or "hours" in condition


def test_rows_of_a_file_are_continued_with_conditions_besides(folder: Path) -> None:
    known = b"sex,age\nFemale,\nMale,33\n"
    done = run("sample", folder / "people.lbarn", "-n", "3", "--given-file", "-", "--given", "member=1", stdin=known)
    found = read_back(done.stdout)
    assert [row["sex"] for row in found] == ["Female"] * 3 + ["Male"] * 3
    assert [row["age"] for row in found[3:]] == ["33"] * 3
    assert {row["member"] for row in found} == {"1"}
    line = refused("sample", folder / "people.lbarn", "--given-file", "-", "--given", "sex=Male", stdin=known)
    assert "column 'sex' is in the file of --given-file, too" in line


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("agee=40", "the model has no column 'agee'; did you mean 'age'?"),
        ("sex=Femal", "column 'sex' has no level 'Femal'; did you mean 'Female'?"),
        ("sex=x", "its levels are 'Female', 'Male'"),
        ("sex=Female|x", "no level 'x'"),
        ("age=old", "'old' is not a number; column 'age' is 18 to 70"),
        ("age=40.5", "multiples of 1; age=40.5 has probability 0"),
        ("hours=30.123", "multiples of 0.1"),
        ("age=200..300", "no value of column 3 ('age') is in 200 to 300"),
        ("age=40..30", "range of column 'age' is empty"),
        ("age=..", "says nothing"),
        ("age=", "says no value"),
        ("age", "is not like NAME=VALUE"),
        ("member=2", "member=2 has probability 0"),
        ("age=200", "column 3 ('age') is 18 to 70; 200 has probability 0"),
        ("age=40|200", "column 3 ('age') does not have the value '200'; it is 18 to 70"),
        ("hours=-5", "-5 has probability 0"),
        ("since=1999-01-01", "1999-01-01 has probability 0"),
        ("since=soon", "'soon' is no date"),
        ("name=n1", "column 'name' was left out of the model (every value is another string)"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(condition: str, why: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    assert why in refused("sample", folder / "people.lbarn", "--given", condition, "-o", out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ("sexx\nFemale\n", "has no column 'sex', 'age', 'hours', 'education', 'since' and 2 more, which the model has; it has 'sexx'"),
        ("sex\nFemale\nOther\n", "column 2 ('sex') has no level 'Other'; its levels are 'Female', 'Male'"),
        ("age\n40\n200\n", "column 3 ('age') is 18 to 70; 200 has probability 0"),
        ("age\n40\nold\n", "column 0 ('age') holds 'old' in row 1 (counted from 0, without the header), which is not a number"),
    ],
)  # fmt: skip
def test_a_file_of_conditions_that_cannot_be_is_refused(known: str, why: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    line = refused("sample", folder / "people.lbarn", "--given-file", "-", "-o", out, stdin=known.encode())
    assert line.startswith(f"lbarn: standard input: {why}")
    assert not out.exists()


def test_two_conditions_on_a_column_are_refused(folder: Path) -> None:
    assert "two conditions" in refused("sample", folder / "people.lbarn", "--given", "age=20", "--given", "age=30")


def test_gaps_are_filled_and_everything_else_stays(folder: Path) -> None:
    rows = people(2, 40)
    rows[3]["sex"] = rows[5]["hours"] = rows[7]["since"] = ""
    data = text_of(rows, MODELLED)
    for output in ("sample", "mode", "mean", "median"):
        done = run("impute", folder / "people.lbarn", "-", "--output", output, "--random-state", "0", stdin=data)
        filled = read_back(done.stdout)
        for before, after in zip(rows, filled):
            for name in MODELLED:
                assert after[name] != ""
                assert before[name] == "" or str(before[name]) == after[name]
    long = read_back(run("impute", folder / "people.lbarn", "-", "--output", "probability", stdin=data).stdout)
    own = [row for row in long if row["row"] == "3" and row["column"] == "sex"]
    assert [row["value"] for row in own] == ["Female", "Male"]
    assert sum(float(row["probability"]) for row in own) == pytest.approx(1)
    draws = read_back(run("impute", folder / "people.lbarn", "-", "--n-draws", "2", stdin=data).stdout)
    assert len(draws) == 80
    assert draws[0]["hours"] == draws[1]["hours"] == str(rows[0]["hours"])


def test_columns_that_the_model_does_not_have_stay_where_and_as_they_are(folder: Path, tmp_path: Path) -> None:
    rows = [{**row, "city": city} for row, city in zip(people(2, 4), ["NA", " =x ", "?", ""])]
    rows[1]["sex"] = rows[2]["name"] = ""
    columns = ["city", "name", *MODELLED[::-1]]
    done = run("impute", folder / "people.lbarn", "-", "--output", "mode", stdin=text_of(rows, columns))
    assert b"left out" not in done.stderr
    filled = read_back(done.stdout)
    assert list(filled[0]) == columns
    assert [row["city"] for row in filled] == ["NA", " =x ", "?", ""]
    assert [row["name"] for row in filled] == [row["name"] for row in rows]
    assert filled[1]["sex"] in ("Female", "Male")
    draws = read_back(
        run("impute", folder / "people.lbarn", "-", "--n-draws", "2", stdin=text_of(rows, columns)).stdout
    )
    assert [row["city"] for row in draws] == ["NA", "NA", " =x ", " =x ", "?", "?", "", ""]
    bits = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)
    np.save(tmp_path / "bits.npy", bits)
    run("fit", tmp_path / "bits.npy", "-o", tmp_path / "bits.lbarn", "--max-iter", "2", "--column", "1=drop")
    bits[0], bits[1, 2] = np.nan, np.nan
    np.save(tmp_path / "holes.npy", bits)
    run("impute", tmp_path / "bits.lbarn", tmp_path / "holes.npy", "-o", tmp_path / "filled.npy")
    whole = np.load(tmp_path / "filled.npy")
    assert np.isnan(whole).sum() == np.isnan(whole[0, 1]) == 1
    np.testing.assert_array_equal(whole[2:], bits[2:])


NUMBERS = [["198", "262", "7"], ["44", "", "68"], ["22", "30.5", "0.25", "-7"], ["1.0", "2.0", "4.5"], ["0.5", "1.5"]]


@pytest.mark.parametrize("names", ["a,b,c,d,e\n", ""], ids=["named", "numbered"])
@pytest.mark.parametrize("options", [(), ("--column", "{}=continuous")], ids=["detected", "said"])
def test_numbers_come_back_as_they_were_written(names: str, options: tuple[str, ...], tmp_path: Path) -> None:
    text = names + lines(*NUMBERS)
    fitted(text.encode(), tmp_path / "a.csv", *(option.format("c" if names else "2") for option in options))
    model, packed, back = tmp_path / "a.lbarn", tmp_path / "x.lbz", tmp_path / "back.csv"
    run("compress", model, tmp_path / "a.csv", "-o", packed)
    run("decompress", model, packed, "-o", back)
    assert back.read_text() == text
    drawn = run("sample", model, "-n", "50", "--random-state", "0").stdout.decode()
    for row in drawn.splitlines()[bool(names) :]:
        whole, gaps, mixed, floats, _ = row.split(",")
        assert whole.isdecimal()
        assert gaps == "" or gaps.isdecimal()
        assert not mixed.endswith(".0")
        assert "." in floats
    run("sample", model, "-n", "5", "-o", tmp_path / "new.parquet")
    drawn_types = parquet.read_schema(tmp_path / "new.parquet")
    assert drawn_types.types == [pa.int64(), pa.int64(), pa.float64(), pa.float64(), pa.float64()]
    assert drawn_types.field(2).metadata in (None, {}) or b"lbarn" not in drawn_types.field(2).metadata


def test_compressed_data_of_more_rows_than_wanted_is_refused(folder: Path, tmp_path: Path) -> None:
    packed, out = tmp_path / "x.lbz", tmp_path / "x.csv"
    run("compress", folder / "people.lbarn", folder / "others.csv", "-o", packed)
    line = refused("decompress", folder / "people.lbarn", packed, "--max-rows", "79", "-o", out)
    assert line == f"lbarn: {packed}: the compressed data claims to hold 80 rows, more than --max-rows 79"
    assert not out.exists()
    run("decompress", folder / "people.lbarn", packed, "--max-rows", "80", "-o", out)
    assert len(read_back(out.read_bytes())) == 80


def test_predictions_are_those_of_the_library_and_need_no_such_column(folder: Path) -> None:
    model = lbarn.load(folder / "people.lbarn")
    rows = people(3, 30)
    data = text_of(rows, [name for name in MODELLED if name != "sex"])
    done = run("predict", folder / "people.lbarn", "-", "--column", "sex", stdin=data)
    found = read_back(done.stdout)
    table = pa.table({"age": pa.array([row["age"] or None for row in rows])})
    for name in MODELLED:
        table = (
            table.append_column(name, pa.array([row[name] for row in rows])) if name not in ("age", "sex") else table
        )
    expected = model.conditional(table, "sex")
    assert [row["sex"] for row in found] == expected.mode().tolist()
    np.testing.assert_allclose([float(row["probability"]) for row in found], expected.probability.max(axis=1))
    levels = read_back(run("predict", folder / "people.lbarn", "-", "--column", "sex", "--levels", stdin=data).stdout)
    assert list(levels[0]) == ["sex=Female", "sex=Male"]
    numbers = run(
        "predict", folder / "people.lbarn", folder / "others.csv", "--column", "age", "--quantiles", "0.1,0.9"
    )
    row = read_back(numbers.stdout)[0]
    assert list(row) == ["mean", "10%", "90%"]
    assert int(row["10%"]) <= float(row["mean"]) <= int(row["90%"])
    dates = read_back(run("predict", folder / "people.lbarn", folder / "others.csv", "--column", "since").stdout)
    assert list(dates[0]) == ["since", "5%", "50%", "95%"]
    assert dates[0]["5%"] <= dates[0]["50%"] <= dates[0]["95%"]
    assert "did you mean 'age'" in refused(
        "predict", folder / "people.lbarn", folder / "others.csv", "--column", "agee"
    )
    assert "left out" in refused("predict", folder / "people.lbarn", folder / "others.csv", "--column", "name")
    wrong = refused("predict", folder / "people.lbarn", folder / "others.csv", "--column", "age", "--quantiles", "5%")
    assert "shares between 0 and 1" in wrong


def test_plain_csv_comes_back_byte_for_byte_whatever_is_in_it(folder: Path, tmp_path: Path) -> None:
    packed, back = tmp_path / "x.lbz", tmp_path / "x.csv"
    data = text_of(people(), MODELLED)
    run("compress", folder / "people.lbarn", "-", "-o", packed, stdin=data)
    run("decompress", folder / "people.lbarn", packed, "-o", back)
    assert back.read_bytes() == data
    assert packed.stat().st_size < len(data) / 5


def test_strange_rows_come_with_reasons_in_words(folder: Path) -> None:
    rows = people(4, 50)
    rows[17] |= {"age": 25, "hours": 41.0, "member": 0, "retired": "True"}
    done = run("anomalies", folder / "people.lbarn", "-", "-n", "1", stdin=text_of(rows))
    assert done.stdout.decode().startswith("row 17 ")
    assert "member is 0; expected 1" in done.stdout.decode()
    assert "retired is True; expected False" in done.stdout.decode()
    told = json.loads(run("anomalies", folder / "people.lbarn", "-", "-n", "1", "--json", stdin=text_of(rows)).stdout)
    assert {told[0]["values"][k]["column"] for k in range(2)} == {"member", "retired"}


def test_inspect_shows_the_columns_and_one_of_them(folder: Path) -> None:
    text = run("inspect", folder / "people.lbarn").stdout.decode()
    assert "    sex " in text
    assert "counts the rows" not in text
    shown = run("inspect", folder / "people.lbarn", "--column", "member").stdout.decode()
    assert "hours" in shown
    assert (
        json.loads(run("inspect", folder / "people.lbarn", "--column", "hours", "--json").stdout)["kind"] == "ordered"
    )


def test_the_same_table_in_parquet_gives_the_same_model(folder: Path, tmp_path: Path) -> None:
    rows = people()
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in MODELLED}
    columns["age"] = [own or None for own in columns["age"]]
    columns["retired"] = [own == "True" for own in columns["retired"]]
    parquet.write_table(pa.table(columns), tmp_path / "people.parquet")
    run("fit", tmp_path / "people.parquet", "-o", tmp_path / "p.lbarn", *QUICK)
    run("fit", folder / "people.csv", "--drop", "name", "--drop", "number", "-o", tmp_path / "c.lbarn", *QUICK)
    one, other = (lbarn.load(tmp_path / name) for name in ("p.lbarn", "c.lbarn"))
    assert one.network_.fingerprint() == other.network_.fingerprint()
    drawn = tmp_path / "new.parquet"
    run("sample", tmp_path / "p.lbarn", "-n", "20", "-o", drawn)
    assert parquet.read_schema(drawn).types == pa.table(columns).schema.types
    assert "is not of numbers: write the rows to .csv or .parquet" in refused(
        "sample", tmp_path / "p.lbarn", "-o", tmp_path / "new.npy"
    )


# ---------------------------------------------------------------------- files as people have them


def fitted(content: bytes, path: Path, *options: object, **how: Any) -> tuple[dict[str, Any], str]:
    """What the columns became, by name, and what was said."""
    path.write_bytes(content)
    out = path.with_suffix(".lbarn")
    done = run("fit", path, "-o", out, "--max-iter", "2", *options, **how)
    return {str(own.name): own for own in lbarn.load(out).columns_}, done.stderr.decode()


def lines(*columns: Any, delimiter: str = ",", end: str = "\n") -> str:
    """Sixty lines, of which every column has some values in turn."""
    return "".join(delimiter.join(column[i % len(column)] for column in columns) + end for i in range(60))


def test_european_files_are_read_right(tmp_path: Path) -> None:
    text = "größe;preis;farbe\n" + lines(["170", "181"], ["0,5", "1.234,25", "3"], ["rot", "grün"], delimiter=";")
    for encoding in ("utf-8", "utf-8-sig", "cp1252"):
        found, said = fitted(text.encode(encoding), tmp_path / "a.csv")
        assert {name: own.kind for name, own in found.items()} == {
            "größe": "ordered",
            "preis": "ordered",
            "farbe": "categorical",
        }
        assert found["preis"].values == "0.5 to 1234.25"
        assert found["farbe"].levels == ("grün", "rot")
        assert ("Latin-1" in said) == (encoding == "cp1252")


def test_quoted_line_breaks_and_separators_are_part_of_a_value(tmp_path: Path) -> None:
    text = "a,b\n" + lines(['"x\ny"', '"p, q"', '"say ""so"""'], ["1", "2", "3"])
    found, _ = fitted(text.encode(), tmp_path / "a.csv")
    assert set(found["a"].levels) == {"x\ny", "p, q", 'say "so"'}
    packed, back = tmp_path / "x.lbz", tmp_path / "back.csv"
    run("compress", tmp_path / "a.lbarn", tmp_path / "a.csv", "-o", packed)
    run("decompress", tmp_path / "a.lbarn", packed, "-o", back)
    assert back.read_text() == text


def test_a_mixed_column_is_told_and_can_be_meant(tmp_path: Path) -> None:
    text = ("x,y\n" + lines(["12", "13", "14", "n/a"], ["a", "b"]).replace("14,a", "abc,a", 1)).encode()
    found, said = fitted(text, tmp_path / "a.csv")
    assert found["x"].kind == "categorical"
    assert "column 0 ('x') holds numbers, but 'abc' in row 2 (counted from 0, without the header) is none" in said
    assert "it is read as strings (categorical), as --column x=categorical would say" in said
    assert "leave them empty if it should be numbers" in said
    assert said.count("note: ") == 1
    found, said = fitted(b"x,y\n12,1\nn/a,2\nabc,3\n", tmp_path / "b.csv")
    assert found["x"].levels == ("12", "abc", "n/a")
    assert "'abc' in row 2 (counted from 0, without the header) is none" in said
    _, said = fitted(text, tmp_path / "a.csv", "--column", "x=categorical")
    assert "holds numbers" not in said
    line = refused("fit", tmp_path / "a.csv", "-o", tmp_path / "x.lbarn", "--column", "x=continuous")
    assert "holds 'abc' in row 2 (counted from 0, without the header), which is not a number" in line


ROWS = lines(["12", "13", "14"], ["a", "b"], ["1", "2", "3", "4", "5"])
GOOD = f"x,y,z\n{ROWS}"


@pytest.mark.parametrize(
    ("content", "why"),
    {
        "empty": (b"", "is empty"),
        "blank": (b"\n \n\n", "is empty"),
        "header alone": (b"x,y,z\n", "has a header, but no rows"),
        "utf-16": (GOOD.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        "not text": (bytes(range(256)), "is not text; the ending of a file's name tells its format"),
        "short line": (
            f"x,y,z\n12,a,1\n13,b\n{ROWS}".encode(),
            "row 1 (counted from 0, without the header) has 2 cells, not 3 as the first line",
        ),
        "long line": (
            f"x,y,z\n12,a,1,9\n{ROWS}".encode(),
            "row 0 (counted from 0, without the header) has 4 cells, not 3 as the first line",
        ),
        "open quote": (
            f'x,y,z\n"12,a,1\n{ROWS}'.encode(),
            "a quote is opened in row 0 (counted from 0, without the header) and never closed",
        ),
        "same name": (f"x,y,x\n{ROWS}".encode(), "two columns are called 'x'; name them in the first line"),
        "no names": (f"x,,\n{ROWS}".encode(), "two columns have no name; name them in the first line"),
        "infinite": (
            GOOD.replace("13,", "inf,", 1).encode(),
            "column 0 ('x') holds inf in row 1 (counted from 0, without the header); use a finite number",
        ),
        "one row": (b"x,y,z\n12,a,1\n", "--validation-fraction 0.2 of 1 sample(s) leaves 0 to validate on"),
    }.values(),
    ids=lambda value: None if isinstance(value, bytes) else value[:20],
)
def test_a_file_that_cannot_be_read_is_one_line(content: bytes, why: str, tmp_path: Path) -> None:
    data, out = tmp_path / "a.csv", tmp_path / "x.lbarn"
    data.write_bytes(content)
    assert refused("fit", data, "-o", out).startswith(f"lbarn: {data}: {why}")
    assert not out.exists()


def test_byte_order_marks_line_ends_and_separator_lines_are_no_part_of_names(tmp_path: Path) -> None:
    expected = {"x": "12 to 14", "y": "a, b", "z": "1 to 5"}
    semicolons = GOOD.replace(",", ";")
    for text in (
        GOOD.encode("utf-8-sig"),
        GOOD.replace("\n", "\r\n").encode("utf-8-sig"),
        GOOD.replace("\n", "\r").encode(),
        f"sep=;\r\n{semicolons}".encode(),
        semicolons.encode("utf-8-sig"),
        GOOD.replace(",", "\t").encode(),
        GOOD.replace(",", '","').replace("\n", '"\n"').join('""').removesuffix('""').encode(),
    ):
        found, said = fitted(text, tmp_path / "a.csv")
        assert {name: own.values for name, own in found.items()} == expected, text[:20]
        assert "note" not in said


def test_thousands_of_columns_are_read_and_another_file_of_them_is_checked(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(2000)]
    text = "\n".join([",".join(names), *(",".join(str((i * j) % 2) for j in range(2000)) for i in range(20)), ""])
    found, _ = fitted(text.encode(), tmp_path / "wide.csv", "--max-leaf-nodes", "2")
    assert len(found) == 2000
    line = refused("score", tmp_path / "wide.lbarn", "-", stdin=text.replace("c7,", "seven,", 1).encode())
    assert line.endswith("has no column 'c7', which the model has; it has 'seven', which the model does not have")


def test_words_for_missing_are_missing_among_numbers_and_levels_among_strings(tmp_path: Path) -> None:
    text = "x,y,z\n" + lines(
        ["1", "2", "?", "NA", "", "null"], ["a", "?", "NA", "", "none"], ["2024-01-02", "?", "2024-02-03"]
    )
    found, _ = fitted(text.encode(), tmp_path / "a.csv")
    assert (found["x"].kind, found["x"].share_missing) == ("ordered", pytest.approx(4 / 6))
    assert (found["y"].levels, found["y"].share_missing) == (("?", "a", "none"), pytest.approx(2 / 5))
    assert (found["z"].kind, found["z"].share_missing) == ("datetime", pytest.approx(1 / 3))


def test_dates_are_read_however_they_are_written_if_that_is_clear(tmp_path: Path) -> None:
    days = {"dots": "31.01.2024", "slashes": "2024/01/31", "t": "2024-01-31T23:59:00Z", "short": "31.01.2024 23:59"}
    others = ["01.12.2023", "2023/12/01", "2023-12-01T00:00:00Z", "01.12.2023 00:00"]
    text = ",".join([*days, "us", "no day", "x"]) + "\n"
    text += lines(
        *([day, other] for day, other in zip(days.values(), others)), ["01/02/2024"], ["31.02.2024"], ["5", "7", "6"]
    )
    found, said = fitted(text.encode(), tmp_path / "a.csv")
    assert [column.kind for column in found.values()] == ["datetime"] * 4 + ["categorical"] * 2 + ["ordered"]
    assert "column 0 ('dots') holds dates: '31.01.2024' is read, and written, as 2024-01-31" in said
    assert "column 4 ('us') holds '01/02/2024'; it is read as strings: write dates as 2024-01-31" in said
    (row,) = read_back(
        run(
            "sample", tmp_path / "a.lbarn", "-n", "1", "--given", "dots=31.01.2024", "--given", "t=2024-01-31T23:59"
        ).stdout
    )
    assert (row["dots"], row["t"]) == ("2024-01-31", "2024-01-31 23:59:00")
    assert run("score", tmp_path / "a.lbarn", tmp_path / "a.csv").returncode == 0


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    before = lines(["1", "2", "3"], ["a", "b"])
    for rest in (before, before * 4000):
        path.write_text("x,y\n" + before + '2,"a\n' + rest)
        line = refused("fit", path, "-o", tmp_path / "a.lbarn")
        assert line.endswith("a quote is opened in row 60 (counted from 0, without the header) and never closed")
    path.write_text("x,y\n" + before + '2,a 5" pipe\n3,"a\nb"\n' + before)
    assert run("fit", path, "-o", tmp_path / "a.lbarn", "--max-iter", "2").returncode == 0
    assert lbarn.load(tmp_path / "a.lbarn").columns_["y"].levels == ("a", "a\nb", 'a 5" pipe', "b")


def test_numbers_with_leading_zeros_are_names(tmp_path: Path) -> None:
    found, _ = fitted(("zip,x\n" + lines(["07030", "10001"], ["1", "2", "3"])).encode(), tmp_path / "a.csv")
    assert found["zip"].levels == ("07030", "10001")
    drawn = read_back(run("sample", tmp_path / "a.lbarn", "-n", "9", "--given", "zip=07030").stdout)
    assert {row["zip"] for row in drawn} == {"07030"}


def test_files_without_a_header_and_with_spaces_after_commas(tmp_path: Path) -> None:
    text = lines(["39", "50"], [" State-gov", " Private"], [" <=50K", " >50K", " ?"])
    found, _ = fitted(text.encode(), tmp_path / "a.csv")
    assert found["1"].levels == ("Private", "State-gov")
    assert run("sample", tmp_path / "a.lbarn", "-n", "2", "--given", "1=Private").stdout.count(b",Private,") == 2


def test_what_the_user_says_of_columns_goes(tmp_path: Path) -> None:
    text = ("a,b,c,d\n" + lines(["1", "2", "3"], ["1.5", "2.25"], ["low", "mid", "top"], ["0", "1"])).encode()
    options = ("--column", "a=categorical", "--column", "b=continuous", "--column", "c=ordered", "--column", "d=drop")
    found, _ = fitted(text, tmp_path / "a.csv", *options, "--max-cells", "3", "--missing", "unknown")
    assert [own.kind for own in found.values()] == ["categorical", "continuous", "ordered", "left out"]
    drawn = read_back(run("sample", tmp_path / "a.lbarn", "-n", "5", "--given", "c=mid..", "--given", "a=2|3").stdout)
    assert {row["c"] for row in drawn} <= {"mid", "top"}
    for wrong, why in (
        ("e=ordered", "has no column 'e'; its columns are 'a', 'b', 'c', 'd'"),
        ("a=number", "the kinds are binary, categorical"),
        ("a", "is not like NAME=KIND"),
        ("c=datetime", "column 2 ('c') cannot be 'datetime'"),
    ):
        assert why in refused("fit", tmp_path / "a.csv", "-o", tmp_path / "x.lbarn", "--column", wrong)


def test_a_target_comes_last_also_in_ensembles(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "e.lbarn"
    run("fit", folder / "people.csv", "-o", out, "--max-iter", "3", "--ensemble", "2", "--target", "sex")
    model = lbarn.load(out)
    assert [member.order_[-1] for member in model.members_] == [0, 0]
    assert model.members_[0].order_.tolist() != model.members_[1].order_.tolist()
    run("fit", folder / "people.csv", "-o", out, "--max-iter", "3", "--target", "age")
    assert lbarn.load(out).order_.tolist() == [0, 2, 3, 4, 5, 6, 1]
    assert "'name' is left out" in refused("fit", folder / "people.csv", "-o", out, "--target", "name")
    assert "is not there" in refused("fit", folder / "people.csv", "-o", out, "--target", "nobody")
    assert "leave --order out" in refused(
        "fit", folder / "people.csv", "-o", out, "--ensemble", "2", "--order", "random"
    )


def test_other_columns_than_the_models_are_named(folder: Path) -> None:
    data = text_of([{**row, "city": "x"} for row in people(5, 5)], [*MODELLED[1:], "city"])
    line = refused("score", folder / "people.lbarn", "-", stdin=data)
    assert line == (
        "lbarn: standard input: has no column 'sex', which the model has; it has 'city', which the model does not have"
    )
    done = run(
        "score", folder / "people.lbarn", "-", "--mean", stdin=text_of([{**row, "city": "x"} for row in people(5, 5)])
    )
    assert b"column 'city' is left out: the model does not know it" in done.stderr
    wrong = text_of([{**row, "hours": "many"} for row in people(5, 5)])
    assert "column 4 ('hours') holds 'many' in row 0 (counted from 0, without the header)" in refused(
        "score", folder / "people.lbarn", "-", stdin=wrong
    )


def test_levels_that_were_never_seen_are_scored(folder: Path) -> None:
    rows = people(6, 3)
    rows[1]["sex"] = "unheard of"
    scores = np.loadtxt(io.BytesIO(run("score", folder / "people.lbarn", "-", stdin=text_of(rows)).stdout))
    assert np.isfinite(scores).all()
    assert scores[1] < scores.mean()


def test_thousands_of_columns_are_told_briefly(tmp_path: Path) -> None:
    names = [f"c{j}" for j in range(1200)]
    rows = [",".join("xyz"[(i * j) % 3] if j % 2 else str((i * j) % 2) for j in range(1200)) for i in range(30)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *rows, ""]))
    done = run("fit", tmp_path / "wide.csv", "-o", tmp_path / "w.lbarn", "--max-iter", "1", "--max-leaf-nodes", "2")
    assert b"and 1,140 more columns" in done.stderr
    assert len(done.stderr) < 20_000


HOSTILE = {
    "<script>alert(1)</script>": ["<b>", "=cmd|' /C calc'!A0"],
    "=1+1": ["+1", "@x", "a\nb"],
    'say "hi", you': ['"', '""', ","],
    "\u05e9\u05dc\u202eabc": ["0", "1", "2", "3"],
    "\x1b[31mred": ["\x1b[2J", "ok", "\x9b1m"],
    "emoji \N{GRINNING FACE}": ["\N{GRINNING FACE}", "é"],
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile")
    rng = random.Random(0)
    rows = [{name: rng.choice(values) for name, values in HOSTILE.items()} for _ in range(120)]
    (path / "h.csv").write_bytes(text_of(rows))
    run("fit", path / "h.csv", "-o", path / "h.lbarn", "--max-iter", "5")
    return path


def test_hostile_names_and_levels_are_quoted_in_csv(hostile: Path, tmp_path: Path) -> None:
    found = read_back(run("sample", hostile / "h.lbarn", "-n", "100").stdout)
    assert list(found[0]) == list(HOSTILE)
    for name, values in HOSTILE.items():
        assert {row[name] for row in found} <= set(values)
    packed, back = tmp_path / "h.lbz", tmp_path / "back.csv"
    run("compress", hostile / "h.lbarn", hostile / "h.csv", "-o", packed)
    run("decompress", hostile / "h.lbarn", packed, "-o", back)
    assert back.read_bytes() == (hostile / "h.csv").read_bytes()
    done = run("sample", hostile / "h.lbarn", "-n", "4", "--given", "=1+1=+1", "--given", 'say "hi", you=""')
    assert {(row["=1+1"], row['say "hi", you']) for row in read_back(done.stdout)} == {("+1", '""')}


def test_hostile_names_and_levels_do_not_steer_the_terminal(hostile: Path, tmp_path: Path) -> None:
    model, data = hostile / "h.lbarn", hostile / "h.csv"
    commands: list[tuple[object, ...]] = [("sample", model, "-n", "50"), ("anomalies", model, data, "-n", "50")]
    commands += [("inspect", model), *(("inspect", model, "--column", name) for name in list(HOSTILE)[-3:-1])]
    commands += [("fit", data, "-o", tmp_path / "x.lbarn", "--max-iter", "1")]
    commands += [("sample", model, "--given", "\x1b[31mred=\x1b[3J"), ("impute", model, data)]
    for command in commands:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [EXECUTABLE, *map(str, command)], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL
        )
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 100_000)
            except OSError:  # nobody writes any more
                break
            if not part:
                break
            seen += part
        process.wait()
        os.close(ours)
        shown = seen.decode()
        for harm in ("\x1b[2J", "\x1b[31mred", "\x1b[3J", "\x9b1m", "\u202e"):
            assert harm not in shown, command
        assert "Traceback" not in shown


def test_hostile_names_and_levels_are_text_on_pages(hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    made, report, page = tmp_path / "made.csv", tmp_path / "report.html", tmp_path / "compare.html"
    run("sample", hostile / "h.lbarn", "-n", "60", "-o", made, "--random-state", "0")
    title = "</title><script>alert(2)</script>"
    run("report", hostile / "h.lbarn", "--data", hostile / "h.csv", "-o", report, "--title", title)
    run("compare", hostile / "h.csv", made, "-o", page, "--title", title)
    for path in (report, page):
        text = path.read_text(encoding="utf-8")
        assert "&lt;script&gt;" in text
        assert "<script" not in text
        assert not any(harm in text for harm in ("\x1b", "\x9b", "\u202e"))
        assert "\N{GRINNING FACE}" in text


def test_hostile_levels_are_quoted_in_predictions_and_filled_cells(hostile: Path) -> None:
    model, data = hostile / "h.lbarn", hostile / "h.csv"
    name = 'say "hi", you'
    levels = read_back(run("predict", model, data, "--column", name, "--levels").stdout)
    assert set(levels[0]) == {f"{name}={level}" for level in HOSTILE[name]}
    found = read_back(run("predict", model, data, "--column", "=1+1").stdout)
    assert {row["=1+1"] for row in found} <= set(HOSTILE["=1+1"])
    rows = read_back(data.read_bytes())
    rows[0]["=1+1"] = rows[1][name] = ""
    filled = read_back(run("impute", model, "-", stdin=text_of(rows)).stdout)
    assert filled[2:] == rows[2:]
    assert filled[0]["=1+1"] in HOSTILE["=1+1"]
    assert filled[1][name] in HOSTILE[name]


COMBINED: dict[tuple[str, ...], Any] = {
    ("age=18..18", "retired=false", "sex=Female"): lambda row: (row["age"], row["retired"]) == ("18", "False"),
    ("age=61..", "retired=true", "since=2017-01-01..2017-12-31"): lambda row: int(row["age"]) > 60,
    ("age=20..25", "retired=true"): lambda row: 20 <= int(row["age"]) <= 25 and row["retired"] == "True",
    ("hours=45..50", "member=0", "sex=Female"): lambda row: row["member"] == "0" and 45 <= float(row["hours"]) <= 50,
    ("sex=Male", "age=40", "hours=41.5", "education=?|Masters", "member=1", "retired=false"): lambda row: (
        row["age"] == "40" and row["hours"] == "41.5" and row["education"] in ("?", "Masters")
    ),
}


@pytest.mark.parametrize("conditions", COMBINED, ids=" ".join)
def test_as_many_rows_as_asked_meet_all_conditions_however_unlikely(conditions: tuple[str, ...], folder: Path) -> None:
    """Also those that contradict what the model has learned."""
    options = [word for condition in conditions for word in ("--given", condition)]
    found = read_back(run("sample", folder / "people.lbarn", "-n", "137", *options).stdout)
    assert len(found) == 137
    assert all(map(COMBINED[conditions], found))
    assert all(row["sex"] == "Female" for row in found) or "sex=Female" not in conditions


def test_memory_does_not_grow_with_a_file_of_any_table(folder: Path, tmp_path: Path) -> None:
    header, *rest = text_of(people(7, 2000), MODELLED).split(b"\n", 1)
    small, big, out = tmp_path / "small.csv", tmp_path / "big.csv", tmp_path / "out.csv"
    small.write_bytes(header + b"\n" + rest[0] * 10)
    big.write_bytes(header + b"\n" + rest[0] * 100)
    model = folder / "people.lbarn"
    most = peak("score", model, small, "-o", out) + 40e6
    assert peak("score", model, big, "-o", out) < most
    assert peak("sample", model, "-n", 200_000, "-o", out) < most
