"""CSV as people have it: any delimiter, header or none, gzip, Latin-1; parsed by pyarrow, a block of lines at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lbarn._tables.texts import (
    MISSING,
    Detected,
    Mixed,
    NotANumberError,
    as_numbers,
    as_strings,
    as_times,
    compacted,
    detected,
    wholes,
)
from lbarn.errors import TableFileError

__all__ = ["CSVSource", "is_number"]

_HEAD = 1 << 20  # bytes looked at to find out what the file is
_LONGEST_LINE = 1 << 28
_SNIFFED = 6, 100  # lines looked at for delimiter and header: at least, and at most
_SNIFFED_BYTES = 1 << 16  # after so many, no more than the least number of lines
_DELIMITERS = "\t;,| "  # a comma may be a decimal point where one of the first two separates the cells
_BLOCK_LINES = 512  # at least so many are parsed together: a column costs some time per block
_BLOCK = 1 << 20, 1 << 24  # bytes
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_MOST_CONTROL = 0.05  # share of such bytes in a text
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SEPARATOR_LINE = re.compile(
    rb'(?:\xef\xbb\xbf)?"?sep=([\t;,| ])"?\r?\n'
)  # what some spreadsheets write above the names
_UNNAMED = re.compile(r"|Unnamed: \d+")  # what pandas writes, or reads, for an index without a name


class CSVSource:
    """A stream of CSV, of which the beginning has been looked at: delimiter, names of columns.

    ``names`` is None without a header. ``index`` are the leading columns that pandas has written to number the rows. ``notes``
    is what the user should know about how the cells were read.
    """

    def __init__(self, name: str, stream: BinaryIO, *, header: bool | None, delimiter: str | None = None) -> None:
        self._name = name
        self._stream = _Stream(name, stream)
        if found := _SEPARATOR_LINE.match(self._stream.peek(16)):
            delimiter = found[1].decode()
            self._stream.skip(found.end())
        records = self._first_records(delimiter)
        first, rows = records.cells[0], records.cells[1:]
        self.delimiter = records.delimiter
        self.n_columns = len(first)
        self.names: tuple[str, ...] | None = None
        self.notes: list[str] = []
        self._is_noted = False  # that the file is not UTF-8
        self._is_padded = _are_padded(records.cells)
        if header is None:
            header = _is_header(first, rows)
            if header and _looks_like_a_row(first, rows):
                self.notes.append(
                    f"{name}: the first line is read as the names of the columns, though it looks like a row; --no-header "
                    "reads it as one"
                )
        if header:
            self._utf_8(self._stream.peek(records.first_bytes))
            self._stream.skip(records.first_bytes)
            self.names = tuple(cell.strip() for cell in first)
            self._check_names(self.names)
        self.index = _index_columns(self.names, records.cells[1:]) if self.names else 0
        self._line_bytes = records.line_bytes

    def close(self) -> None:
        self._stream.close()

    def batches(self, columns: Sequence[int], sorts: Sequence[str | None]) -> Iterator[pa.RecordBatch]:
        """The rows, in order, of these columns, each named by its position.

        A column of the sort "number" is uint8, int64 or float64, whatever will do for the batch; "string" or "time" is text, and so
        is "cell", in which no word means that a value is missing.
        What has no sort (None) is numbers if it can be, and else text, in every batch.
        """
        for block, n_rows in self._blocks(columns):
            arrays = [self._value(j, block.column(k), sorts[k], n_rows) for k, j in enumerate(columns)]
            yield pa.RecordBatch.from_arrays(arrays, block.schema.names)

    def read(self, columns: Sequence[int], sorts: Sequence[str | None]) -> list[Detected]:
        """All rows of these columns. What has no sort is found out from all of its cells."""
        pieces: list[list[pa.Array]] = [[] for _ in columns]
        n_whole, n_digits = [0] * len(columns), [0] * len(columns)
        for block, n_rows in self._blocks(columns):
            for k, j in enumerate(columns):
                cells = block.column(k)
                pieces[k].append(compacted(cells) if sorts[k] is None else self._value(j, cells, sorts[k], n_rows))
                if sorts[k] == "number":
                    whole, digits = wholes(cells, pieces[k][-1], self.delimiter)
                    n_whole[k], n_digits[k] = n_whole[k] + whole, n_digits[k] + digits
        found = []
        for k, j in enumerate(columns):
            own, pieces[k] = pieces[k], []
            if sorts[k] is None:
                found.append(detected(own, self.delimiter))
                if (mixed := found[-1].mixed) is not None:
                    self._tell_mixed(j, mixed)
                if (date := found[-1].date) is not None:
                    self._tell_date(j, *date)
            else:
                found.append(Detected(_joined(own), as_digits=0 < n_whole[k] == n_digits[k]))
        return found

    def _value(self, j: int, cells: pa.Array, sort: str | None, n_rows: int) -> pa.Array:
        """The cells of a column, of which the first is in row ``n_rows``."""
        if sort == "cell":
            return cells
        if sort == "string":
            return as_strings(cells)
        if sort == "time":
            return as_times(cells)
        try:
            return as_numbers(cells, self.delimiter)
        except NotANumberError as error:
            if sort is None:
                return as_strings(cells)
            raise TableFileError(
                f"{self._name}: {self._label(j)} holds {error.cell[:40]!r} in {self.row(n_rows + error.row)}, which is not a "
                "number"
            ) from None

    def _tell_date(self, j: int, cell: str, plain: str | None) -> None:
        if plain is None:
            what = f"holds {cell!r}; it is read as strings: write dates as 2024-01-31 or 31.01.2024, so that day and month are clear"
        else:
            what = f"holds dates: {cell!r} is read, and written, as {plain}"
        self.notes.append(f"{self._name}: {self._label(j)} {what}")

    def _tell_mixed(self, j: int, mixed: Mixed) -> None:
        first = f"{mixed.cell[:40]!r} in {self.row(mixed.row)}"
        if mixed.comma is not None:
            what = f"holds {first}, but {mixed.comma[:40]!r} elsewhere: decimal points and decimal commas"
        elif mixed.n_others == 1:
            what = f"holds numbers, but {first} is none"
        else:
            others = "another cell" if mixed.n_others == 2 else f"{mixed.n_others - 1:,} other cells"
            what = f"holds numbers, but {first} and {others} are none"
        self.notes.append(
            f"{self._name}: {self._label(j)} {what}; it is read as strings (categorical), as --column {self._name_of(j)}=categorical "
            "would say: mend these cells or leave them empty if it should be numbers"
        )

    def _blocks(self, columns: Sequence[int]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Rows as text, null if a cell is empty, and how many there were before."""
        labels = [str(j) for j in columns]
        read = pacsv.ReadOptions(
            use_threads=False,  # or an error does not know its row
            column_names=[str(j) for j in range(self.n_columns)],
            block_size=2**31 - 1,
        )
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.string()),
            include_columns=labels,
            null_values=[""],
            strings_can_be_null=True,
        )
        n_rows = 0
        for block in self._stream.blocks(min(max(_BLOCK[0], _BLOCK_LINES * self._line_bytes), _BLOCK[1])):
            opened = _never_closed(block, self.delimiter, self._is_padded)
            if opened is not None:
                raise TableFileError(f"{self._name}: a quote is opened in {self.row(n_rows + opened)} and never closed")
            bad: list[pacsv.InvalidRow] = []

            def refuse(row: pacsv.InvalidRow, bad: list[pacsv.InvalidRow] = bad) -> str:
                bad.append(row)
                return "error"

            parse = pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=refuse, quote_char='"'
            )
            try:
                table = pacsv.read_csv(pa.BufferReader(self._utf_8(block)), read, parse, convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" in str(error):  # blank lines
                    continue
                raise self._parse_error(error, bad, n_rows) from None
            for batch in table.to_batches():
                if self._is_padded:
                    cells = [pc.utf8_ltrim(column, characters=" ") for column in batch.columns]
                    batch = pa.RecordBatch.from_arrays([_emptied(own) for own in cells], batch.schema.names)
                yield batch, n_rows
                n_rows += batch.num_rows
        if n_rows == 0:
            raise TableFileError(f"{self._name}: has a header, but no rows")

    def _utf_8(self, block: bytes) -> bytes:
        """The same text in UTF-8; what is not, is taken for Windows-1252, of which Latin-1 is a part."""
        if block.isascii():
            return block
        try:
            block.decode()
        except UnicodeDecodeError:
            if not self._is_noted:
                self._is_noted = True
                self.notes.append(f"{self._name}: is not UTF-8; it is read as Latin-1 (Windows-1252)")
            return _decoded(block).encode()
        return block

    def row(self, i: int) -> str:
        """Which row is meant, in words."""
        return f"row {i} (counted from 0, {'there is no header' if self.names is None else 'without the header'})"

    def _first_records(self, delimiter: str | None) -> _Records:
        size = _HEAD
        while True:
            head = self._stream.peek(size)
            whole = len(head) < size
            if head.startswith(_UTF_16):
                raise TableFileError(f"{self._name}: is UTF-16 text; save it as UTF-8")
            if b"\0" in head or len(_CONTROL.findall(head)) > _MOST_CONTROL * len(head):
                raise TableFileError(f"{self._name}: is not text; the ending of a file's name tells its format")
            if whole and not head.strip():
                raise TableFileError(f"{self._name}: is empty")
            records = _Records.of(head, whole, delimiter)
            if records is not None:
                return records
            if whole or size > _LONGEST_LINE:
                raise TableFileError(
                    f"{self._name}: is not CSV (a quote is opened and never closed, or a line is endless)"
                )
            size *= 4

    def _check_names(self, names: tuple[str, ...]) -> None:
        counts = Counter(names)
        if len(counts) < len(names):
            twice = next(name for name in names if counts[name] > 1)
            what = f"two columns are called {twice!r}" if twice else "two columns have no name"
            raise TableFileError(f"{self._name}: {what}; name them in the first line")

    def _name_of(self, j: int) -> str:
        return str(j) if self.names is None else self.names[j]

    def _label(self, j: int) -> str:
        return f"column {j}" if self.names is None else f"column {j} ({self.names[j]!r})"

    def _parse_error(self, error: Exception, bad: list[pacsv.InvalidRow], n_rows: int) -> TableFileError:
        if not bad:
            return TableFileError(f"{self._name}: is not CSV ({str(error)[:100]})")
        row = bad[0]
        cells = "1 cell" if row.actual_columns == 1 else f"{row.actual_columns} cells"
        quote = "; a quote is opened in it and never closed" if row.text.count('"') % 2 else ""
        where = self.row(n_rows + (row.number or 1) - 1)
        return TableFileError(f"{self._name}: {where} has {cells}, not {self.n_columns} as the first line{quote}")


@dataclass(frozen=True)
class _Records:
    """The first lines of CSV, taken apart."""

    cells: list[list[str]]
    delimiter: str
    first_bytes: int  # of the file up to the end of the first record
    line_bytes: int  # of a line, roughly

    @classmethod
    def of(cls, head: bytes, whole: bool, delimiter: str | None) -> _Records | None:
        """None if there is no whole line yet."""
        if not whole:
            head = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1]
        bom = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        try:
            text, encoding = head[bom:].decode(), "utf-8"
        except UnicodeDecodeError:
            text, encoding = _decoded(head), "one byte"
        found = {own: _take_apart(text, own) for own in (delimiter or _DELIMITERS)}
        best = delimiter or _delimiter({own: rows for own, (rows, _) in found.items()})
        rows, first = found[best]
        if not rows:
            return None
        first_bytes = bom + (len(first.encode()) if encoding == "utf-8" else len(first))
        return cls(rows, best, first_bytes, len(head) // max(1, head.count(b"\n")))


def _take_apart(text: str, delimiter: str) -> tuple[list[list[str]], str]:
    """The first records that are not blank, and the text of the first one, blank lines before it included."""
    lines: list[str] = []

    def read() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            lines.append(line)
            yield line

    records: list[list[str]] = []
    first = ""
    n_bytes = n_lines = 0
    try:
        for record in csv.reader(read(), delimiter=delimiter, strict=True):
            if not record:
                continue
            first = first or "".join(lines)
            records.append(record)
            n_bytes += sum(map(len, lines[n_lines:]))
            n_lines = len(lines)
            if len(records) == _SNIFFED[1] or (len(records) >= _SNIFFED[0] and n_bytes > _SNIFFED_BYTES):
                break
    except csv.Error:
        pass  # what comes after the first record is pyarrow's to judge
    return records, first


def _delimiter(found: dict[str, list[list[str]]]) -> str:
    """The first that splits all lines into as many cells; else the one that splits the first line most often.

    Spaces separate numbers only: there are spaces in any text.
    """
    for delimiter, rows in found.items():
        is_even = bool(rows) and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
        if is_even and (delimiter != " " or all(is_number(cell) for row in rows[1:] for cell in row)):
            return delimiter
    best = max(found, key=lambda own: len(found[own][0]) if found[own] and own != " " else 0)
    return best if found[best] and len(found[best][0]) > 1 and best != " " else ","


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line holds names: not only numbers (unless these count), and no word that comes again below it."""
    if all(map(is_number, first)):
        return _counts(first) or (first[0] == "" and _counts(first[1:]))
    others = [row for row in rows if row != first]
    return not any(
        not is_number(cell) and any(j < len(row) and row[j] == cell for row in others) for j, cell in enumerate(first)
    )


def _looks_like_a_row(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether there are numbers above numbers, and these do not count the columns."""
    if _counts(first) or _counts(first[1:]):
        return False
    return any(_is_plain_number(cell) and _are_numbers(j, rows) for j, cell in enumerate(first))


def _is_plain_number(cell: str) -> bool:
    return is_number(cell) and any(map(str.isdigit, cell))


def _are_numbers(j: int, rows: Sequence[Sequence[str]]) -> bool:
    return bool(rows) and all(j < len(row) and is_number(row[j]) for row in rows)


def _are_padded(rows: Sequence[Sequence[str]]) -> bool:
    """Whether every delimiter is followed by a space."""
    return len(rows) > 1 and all(len(row) > 1 and all(cell[:1] == " " for cell in row[1:]) for row in rows[1:])


def _counts(cells: Sequence[str]) -> bool:
    return len(cells) > 2 and list(cells) == [str(j) for j in range(len(cells))]


def _index_columns(names: tuple[str, ...], rows: Sequence[Sequence[str]]) -> int:
    """How many of the first columns number the rows: they have no name, and hold whole numbers of which none comes twice."""
    n = 0
    for j, name in enumerate(names[:-1]):
        cells = [row[j] for row in rows if j < len(row)]
        if not (_UNNAMED.fullmatch(name) and all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)):
            break
        n += 1
    return n


def is_number(cell: str) -> bool:
    """Whether a cell of CSV is a number, a word for one, or missing."""
    word = cell.strip().lower()
    if word in MISSING or word in ("true", "false"):
        return True
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


class _Stream:
    """Bytes that can be looked at before they are read, decompressed if need be."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self._name, self._stream, self._ahead = name, stream, b""
        self._own = stream
        if self.peek(2) == b"\x1f\x8b":
            self._own = gzip.GzipFile(fileobj=_Chained(self._ahead, stream))  # type: ignore[assignment]
            self._ahead = b""

    def close(self) -> None:
        self._own.close()
        self._stream.close()

    def peek(self, n_bytes: int) -> bytes:
        """The next bytes; fewer only at the end."""
        parts = [self._ahead]
        missing = n_bytes - len(self._ahead)
        while missing > 0 and (part := self._read(missing)):
            parts.append(part)
            missing -= len(part)
        self._ahead = b"".join(parts)
        return self._ahead[:n_bytes]

    def skip(self, n_bytes: int) -> None:
        self._ahead = self.peek(n_bytes)[n_bytes:] if len(self._ahead) < n_bytes else self._ahead[n_bytes:]

    def blocks(self, n_bytes: int) -> Iterator[bytes]:
        """All that is left, cut between lines."""
        while True:
            block = self.peek(n_bytes)
            if len(block) < n_bytes:
                self._ahead = b""
                if block:
                    yield block
                return
            end = _end_of_records(block)
            if end == 0:  # a line longer than that
                n_bytes *= 2
                if n_bytes > 2 * _LONGEST_LINE:
                    raise TableFileError(f"{self._name}: a quote is opened and never closed, or a line is endless")
                continue
            self.skip(end)
            yield block[:end]

    def _read(self, n_bytes: int) -> bytes:
        try:
            return self._own.read(n_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableFileError(f"{self._name}: is damaged or cut off ({error})") from error


class _Chained(io.RawIOBase):
    """Bytes that were read already, then the rest of the stream."""

    def __init__(self, ahead: bytes, rest: BinaryIO) -> None:
        self._ahead, self._rest = ahead, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._ahead:
            return self._rest.read(size)
        size = len(self._ahead) if size < 0 else size
        part, self._ahead = self._ahead[:size], self._ahead[size:]
        return part


def _decoded(text: bytes) -> str:
    try:
        return text.decode("cp1252")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """Pieces of a column, of numbers of several types or of strings."""
    types = {piece.type for piece in pieces}
    kind = pa.float64() if pa.float64() in types else pa.int64() if pa.int64() in types else pieces[0].type
    return pa.concat_arrays([piece.cast(kind) for piece in pieces])


def _emptied(cells: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(cells, ""), None, cells)


def _never_closed(block: bytes, delimiter: str, padded: bool) -> int | None:
    """The number of the record that opens a quote which nothing closes, if there is one: all that follows would be one cell."""
    if block.count(b'"') % 2 == 0:
        return None
    text = io.StringIO(block.decode("latin-1"), newline="")
    n_records = 0
    try:
        for record in csv.reader(text, delimiter=delimiter, skipinitialspace=padded, strict=True):
            n_records += bool(record)
    except csv.Error as error:
        if "unexpected end" in str(error) or "field larger" in str(error):
            return n_records
    return None


def _end_of_records(block: bytes) -> int:
    """Where the last whole record of a block ends: after a line break outside of quotes."""
    end = block.rfind(b"\n") + 1
    quotes = block.count(b'"', 0, end)
    while end and quotes % 2:
        previous = block.rfind(b"\n", 0, end - 1) + 1
        quotes -= block.count(b'"', previous, end)
        end = previous
    return end
