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

from lbarn.errors import TableFileError

__all__ = ["MISSING", "CSVSource", "is_number", "numbers_or_text"]

MISSING = ("", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")  # in any case: cells without a value
_WORDS = {"true": "1", "false": "0"}

_HEAD = 1 << 20  # bytes looked at to find out what the file is
_LONGEST_LINE = 1 << 28
_SNIFFED = 6  # lines looked at for the delimiter
_DELIMITERS = "\t;, "  # a comma may be a decimal point where one of the first two separates the cells
_BLOCK_LINES = 512  # at least so many are parsed together: a column costs some time per block
_BLOCK = 1 << 20, 1 << 24  # bytes
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UNNAMED = re.compile(r"|Unnamed: \d+")  # what pandas writes, or reads, for an index without a name


class CSVSource:
    """A stream of CSV, of which the beginning has been looked at: delimiter, names of columns.

    ``names`` is None without a header. ``index`` are the leading columns that pandas has written to number the rows.
    """

    def __init__(self, name: str, stream: BinaryIO, *, header: bool | None, delimiter: str | None = None) -> None:
        self._name = name
        self._stream = _Stream(name, stream)
        records = self._first_records(delimiter)
        first = records.cells[0]
        self.delimiter = records.delimiter
        self.is_latin_1 = records.is_latin_1
        self.n_columns = len(first)
        self.names: tuple[str, ...] | None = None
        if header is None:
            header = not all(map(is_number, first)) or _counts(first) or (first[0] == "" and _counts(first[1:]))
        if header:
            self._stream.skip(records.first_bytes)
            self.names = tuple(first)
            self._check_names(self.names)
        self.index = _index_columns(self.names, records.cells[1:]) if self.names else 0
        self._line_bytes = records.line_bytes

    def close(self) -> None:
        self._stream.close()

    def batches(self, columns: Sequence[int], *, as_text: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows, in order, of these columns, each named by its position: uint8 where a byte will do, else float64.

        With ``as_text``, cells are the strings that they are in the file, and null if missing.
        """
        labels = [str(j) for j in columns]
        null_values = {form for word in MISSING for form in (word, word.upper(), word.title(), word.capitalize())}
        read = pacsv.ReadOptions(
            use_threads=False,  # or an error does not know its row
            column_names=[str(j) for j in range(self.n_columns)],
            block_size=2**31 - 1,
        )
        convert = pacsv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.string()),
            include_columns=labels,
            null_values=[*null_values, "NaN"],
            strings_can_be_null=True,
        )
        n_rows = 0
        for block in self._stream.blocks(min(max(_BLOCK[0], _BLOCK_LINES * self._line_bytes), _BLOCK[1])):
            bad: list[pacsv.InvalidRow] = []

            def refuse(row: pacsv.InvalidRow, bad: list[pacsv.InvalidRow] = bad) -> str:
                bad.append(row)
                return "error"

            parse = pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=refuse, quote_char='"'
            )
            try:
                table = pacsv.read_csv(pa.BufferReader(_utf_8(block)), read, parse, convert)
            except pa.ArrowInvalid as error:
                if "Empty CSV" in str(error):  # blank lines
                    continue
                raise self._parse_error(error, bad, n_rows) from None
            for batch in table.to_batches():
                yield batch if as_text else self._numbers(batch, n_rows)
                n_rows += batch.num_rows
        if n_rows == 0:
            raise TableFileError(f"{self._name}: has a header, but no rows")

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
            if _CONTROL.search(head):
                raise TableFileError(f"{self._name}: is not text; the ending of a file's name tells its format")
            records = _Records.of(head, whole, delimiter)
            if records is not None:
                return records
            if whole and not head.strip():
                raise TableFileError(f"{self._name}: is empty")
            if whole or size > _LONGEST_LINE:
                raise TableFileError(
                    f"{self._name}: is not CSV (a quote is opened and never closed, or a line is endless)"
                )
            size *= 4

    def _check_names(self, names: tuple[str, ...]) -> None:
        counts = Counter(names)
        if len(counts) < len(names):
            twice = next(name for name in names if counts[name] > 1)
            raise TableFileError(f"{self._name}: two columns are called {twice!r}")

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

    def _numbers(self, batch: pa.RecordBatch, n_rows: int) -> pa.RecordBatch:
        columns = []
        for label, column in zip(batch.schema.names, batch.columns):
            try:
                columns.append(_numbers(column, self.delimiter))
            except _NotANumberError as error:
                raise TableFileError(
                    f"{self._name}: {self._label(int(label))} holds {error.cell[:40]!r} in "
                    f"{self.row(n_rows + error.row)}, which is not a number"
                ) from None
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)


@dataclass(frozen=True)
class _Records:
    """The first lines of CSV, taken apart."""

    cells: list[list[str]]
    delimiter: str
    is_latin_1: bool
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
            text, encoding = head.decode("latin-1"), "latin-1"
        found = {own: _take_apart(text, own) for own in (delimiter or _DELIMITERS)}
        best = delimiter or _delimiter({own: [len(row) for row in rows] for own, (rows, _) in found.items()})
        rows, first = found[best]
        if not rows:
            return None
        first_bytes = bom + len(first.encode(encoding))
        return cls(rows, best, encoding == "latin-1", first_bytes, len(head) // max(1, head.count(b"\n")))


def _take_apart(text: str, delimiter: str) -> tuple[list[list[str]], str]:
    """The first records that are not blank, and the text of the first one, blank lines before it included."""
    lines: list[str] = []

    def read() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            lines.append(line)
            yield line

    records: list[list[str]] = []
    first = ""
    try:
        for record in csv.reader(read(), delimiter=delimiter, strict=True):
            if not record:
                continue
            first = first or "".join(lines)
            records.append(record)
            if len(records) == _SNIFFED:
                break
    except csv.Error:
        pass  # what comes after the first record is pyarrow's to judge
    return records, first


def _delimiter(widths: dict[str, list[int]]) -> str:
    """The first that splits all lines into as many cells; else the one that splits the first line most often."""
    for delimiter, counts in widths.items():
        if counts and counts[0] > 1 and len(set(counts)) == 1:
            return delimiter
    best = max(widths, key=lambda own: widths[own][:1])
    return best if widths[best][:1] > [1] and best != " " else ","


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


class _NotANumberError(Exception):
    def __init__(self, row: int, cell: str) -> None:
        self.row, self.cell = row, cell


def is_number(cell: str) -> bool:
    """Whether a cell of CSV is a number, a word for one, or missing."""
    word = cell.strip().lower()
    if word in MISSING or word in _WORDS:
        return True
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _numbers(cells: pa.Array, delimiter: str) -> pa.Array:
    """Strings as numbers; the same column may have other types in other batches."""
    try:
        return cells.cast(pa.uint8())
    except pa.ArrowInvalid:
        pass
    words = pc.ascii_lower(pc.ascii_trim_whitespace(cells))
    words = pc.if_else(pc.is_in(words, pa.array(MISSING)), None, words)
    for word, digit in _WORDS.items():
        words = pc.if_else(pc.equal(words, word), digit, words)
    if delimiter != ",":
        words = pc.replace_substring(words, ",", ".")
    try:
        numbers = words.cast(pa.float64())
    except pa.ArrowInvalid:
        row = next(i for i, word in enumerate(words) if not _casts(word))
        raise _NotANumberError(row, cells[row].as_py()) from None
    try:
        return numbers.cast(pa.uint8())
    except pa.ArrowInvalid:  # with a fraction, negative, or large
        return numbers


def numbers_or_text(cells: pa.Array, delimiter: str) -> pa.Array:
    """A whole column of strings as numbers if all of them are, else as they are."""
    try:
        return _numbers(cells, delimiter)
    except _NotANumberError:
        return cells


def _casts(word: pa.Scalar) -> bool:
    try:
        word.cast(pa.float64())
    except pa.ArrowInvalid:
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


def _utf_8(block: bytes) -> bytes:
    """The same text in UTF-8; what is not, is taken for Latin-1."""
    if block.isascii():
        return block
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("latin-1").encode()
    return block


def _end_of_records(block: bytes) -> int:
    """Where the last whole record of a block ends: after a line break outside of quotes."""
    end = block.rfind(b"\n") + 1
    quotes = block.count(b'"', 0, end)
    while end and quotes % 2:
        previous = block.rfind(b"\n", 0, end - 1) + 1
        quotes -= block.count(b'"', previous, end)
        end = previous
    return end
