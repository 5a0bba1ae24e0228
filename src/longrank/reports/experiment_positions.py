"""Where relevance sits in an experiment's collections, alone and beside what a paper printed about it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from longrank.core.types import TokenSpan
from longrank.evaluation.papers.tables import Column, PaperTable, Statement, paper_statements, paper_table
from longrank.experiments.records import CellResult, ExperimentResult
from longrank.positions.gold import SNIPPETS
from longrank.positions.profile import CHUNK_TOKENS, PassageCounts, PositionProfile, passage_counts
from longrank.positions.records import PairRecord
from longrank.reports.experiment_papers import STANDS_FOR, chunk_length
from longrank.reports.experiment_reading import Reading
from longrank.reports.tables import Cell, Table


class Placed(NamedTuple):
    """The recorded positions of one collection."""

    name: str
    plays: str  # the collection of the papers that it is, or whose part it plays
    profile: PositionProfile
    counts: PassageCounts
    pairs: int  # located or not
    judging: str = ""  # of a chat model's grades: whose they are and what is missing

    @property
    def in_snippets(self) -> bool:
        """Whether positions count snippets, not tokens."""
        return self.profile.tokenizer == SNIPPETS

    @property
    def approximate(self) -> str:
        """What is to be known of positions that stand for snippets of unknown length; empty of others."""
        if self.in_snippets or not self.profile.tokenizer.startswith(SNIPPETS):
            return ""
        return f"{self.name}: approximate; the judgements number snippets and have no text ({self.profile.tokenizer})."

    @property
    def located(self) -> int:
        """Pairs whose evidence was found."""
        return len(self.profile.located)

    @property
    def located_percent(self) -> float:
        """Their share of all pairs."""
        return 100 * self.located / self.pairs


_FIRST = "first relevant passage "
# measure of a paper's column -> our value in the order of its rows, or of a statement -> our one value, from the
# positions and the length of a chunk
_SHARES: Mapping[str, Callable[[Placed, int], Sequence[float]]] = {
    f"{_FIRST}starts (%)": lambda p, chunk: _percent(p.profile.chunk_shares("start", chunk_tokens=chunk)),
    f"{_FIRST}ends (%)": lambda p, chunk: _percent(p.profile.chunk_shares("end", chunk_tokens=chunk)),
    "documents (%)": lambda p, _: _percent((p.counts.one, p.counts.one_or_two, p.counts.three_or_more)),
}
_STATED: Mapping[str, Callable[[Placed], str]] = {
    "located (%)": lambda p: f"{p.located_percent:.1f}%",
    "earliest start (tokens)": lambda p: f"{p.profile.first('start').min()}",
    "longest document (tokens)": lambda p: f"{p.profile.lengths().max()}",
}


def positions_table(reading: Reading) -> Table | None:
    """A row a collection: what was located, medians, and the shares that the first chunk holds."""
    chunk, placed = chunk_length(reading), _placed(reading.result)
    rows = []
    for one in placed:
        starts, ends = (one.profile.first(edge) for edge in ("start", "end"))
        medians = (median(values.tolist()) for values in (starts, ends, one.profile.lengths()))
        shares = (one.profile.chunk_shares(edge, chunk_tokens=chunk)[0] for edge in ("start", "end"))
        first = ("", "") if one.in_snippets else (f"{share:.1%}" for share in shares)
        cells = [one.name, str(one.pairs), f"{one.located_percent:.1f}%", *(f"{value:.0f}" for value in medians)]
        rows.append(tuple(map(Cell, [*cells, *first, f"{one.counts.one:.1%}"])))
    headings = ("collection", "pairs", "located", "median start", "median end", "median length")
    notes = (
        f"Of located pairs: tokens ({_tokenizers(placed)}) at which the first relevant passage starts and ends, shares "
        f"whose first passage starts and ends in the first {chunk} tokens, and documents with one relevant passage. "
        f"A passage that was cut into parts counts by its first.",
        *(f"{one.name} counts snippets of documents, not tokens." for one in placed if one.in_snippets),
        *(one.approximate for one in placed if one.approximate),
        *(one.judging for one in placed if one.judging),
    )
    return (
        Table((*headings, "starts in chunk 1", "ends in chunk 1", "one passage"), tuple(rows), notes) if rows else None
    )


def positions_beside(reading: Reading) -> dict[str, Table]:
    """A table for each table of a paper about positions that the experiment names, and one for what its text says."""
    placed, tables = _placed(reading.result), {}
    for paper in reading.result.about.get("papers", ()):
        for number in paper.get("tables", ()):
            table = paper_table(f"{paper['key']}/{number}")
            found = {column: mine for column in table.columns if (mine := _counterparts(column, placed))}
            if found:
                tables[f"{paper['key']}, Table {number}"] = _shares_table(table, found, chunk_length(reading))
        named = {f"{kind} {n}" for kind in ("table", "figure") for n in paper.get(f"{kind}s", ())}
        stated = [(one, mine) for one, mine in _statements(placed) if one.paper == paper["key"]]
        shown = [(one, mine) for one, mine in stated if named & set(one.shown_with)]
        if shown:
            tables[f"{paper['key']}, text about positions"] = _statements_table(shown)
    return tables


def _counterparts(column: Column, placed: Sequence[Placed]) -> list[Placed]:
    same = [one for one in placed if column.measure in _SHARES and one.plays == column.collection]
    return [one for one in same if not (one.in_snippets and column.measure.startswith(_FIRST))]


def _statements(placed: Sequence[Placed]) -> Iterator[tuple[Statement, Placed]]:
    for one in paper_statements():
        yield from ((one, mine) for mine in placed if one.column.measure in _STATED and mine.plays == one.column[0])


def _shares_table(table: PaperTable, found: Mapping[Column, Sequence[Placed]], chunk: int) -> Table:
    by_chunk = next(iter(found)).measure.startswith(_FIRST)
    headings, columns = [_FIRST.strip() if by_chunk else "relevant passages"], []
    for column, mine in found.items():
        what = column.measure.removeprefix(_FIRST).removesuffix(" (%)")
        for one in mine:
            headings.append(f"{one.name}, {what}")
            columns.append([f"{value:.1f}%" for value in _SHARES[column.measure](one, chunk)])
        headings.append(f"{column.collection}, {what} (theirs)")
        theirs = (row.cells[table.columns.index(column)].value for row in table.rows)
        columns.append(["" if value is None else f"{value.digits}%" for value in theirs])
    rows = tuple(tuple(map(Cell, row)) for row in zip((row.system for row in table.rows), *columns, strict=True))
    notes = [f"{table.title}: {table.citation.rstrip('.')}, Table {table.number}; theirs as printed."]
    if by_chunk and chunk != CHUNK_TOKENS:
        notes.append(f"Our chunks have {chunk} tokens, theirs {CHUNK_TOKENS}.")
    return Table(tuple(headings), rows, (*notes, *_what_ours_are([one for mine in found.values() for one in mine])))


def _statements_table(shown: Sequence[tuple[Statement, Placed]]) -> Table:
    rows = tuple(
        tuple(map(Cell, (mine.name, one.column.measure, _STATED[one.column.measure](mine), one.column[0], one.words)))
        for one, mine in shown
    )
    sections = ", ".join(dict.fromkeys(one.section for one, _ in shown))
    notes = (f"{shown[0][0].citation.rstrip('.')}, section {sections}; theirs in the paper's words.",)
    headings = ("collection", "what", "ours", "their collection", "theirs")
    return Table(headings, rows, (*notes, *_what_ours_are([mine for _, mine in shown])))


def _what_ours_are(placed: Sequence[Placed]) -> Iterator[str]:
    known = {one.name: one for one in placed}
    counts = ", ".join(f"{one.located} of {one.pairs} relevant pairs in {one.name}" for one in known.values())
    yield f"Located by us: {counts}."
    yield from (one.approximate for one in known.values() if one.approximate)
    made = [one.name for one in known.values() if one.plays != one.name]
    if made:  # toy and nq-early draw their starts from Table 6, the far ones keep FarRelevant's rule
        yield f"Evidence in {', '.join(made)} was placed after the papers' numbers, so agreement is no finding."


def _placed(result: ExperimentResult) -> list[Placed]:
    """Recorded positions in the order of the plan; a collection of which nothing was located is left out."""
    return [_one(cell) for cell in result.where(what="positions") if cell.values.get("stop")]


def _one(cell: CellResult) -> Placed:
    name, tokenizer = str(cell.labels["collection"]), str(cell.facts.get("tokenizer", ""))
    starts, stops, lengths = (cell.values[edge] for edge in ("start", "stop", "length"))
    records = tuple(
        PairRecord(pair, pair, int(lengths[pair]), (TokenSpan(int(start), int(stops[pair]), tokenizer),), "recorded")
        for pair, start in starts.items()
    )
    counts = passage_counts([int(count) for count in cell.values.get("passages", {}).values()])
    profile = PositionProfile(name, tokenizer, records)
    pairs = int(cell.facts.get("pairs", len(records)))
    return Placed(name, STANDS_FOR.get(name, name), profile, counts, pairs, _judging(name, cell.facts))


def _judging(name: str, facts: Mapping[str, Any]) -> str:
    if "judge" not in facts:
        return ""
    return (
        f"{name}: {facts['pieces']} pieces graded by {facts['judge']}, {facts['pieces_without_grade']} without a "
        f"grade; {facts['documents_not_read_to_the_end']} documents not read to the end."
    )


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def _tokenizers(placed: Sequence[Placed]) -> str:
    return ", ".join(dict.fromkeys(one.profile.tokenizer for one in placed if not one.in_snippets))
