"""Profiles, ceilings and collection statistics as tables."""

from collections.abc import Mapping, Sequence

from longrank.positions.ceiling import FATES, Ceiling, Reach
from longrank.positions.chance import Interval
from longrank.positions.profile import CHUNK_TOKENS, Divergence, PositionProfile
from longrank.positions.statistics import PASSAGE_LABELS, PASSAGE_TOKENS, CollectionStatistics
from longrank.reports.tables import Cell, Table


def profile_table(profile: PositionProfile, *, chunk_tokens: int = CHUNK_TOKENS) -> Table:
    """Shares of first relevant passages by chunk, start and end (Table 6), and what sums the profile up."""
    starts = profile.chunk_shares("start", chunk_tokens=chunk_tokens)
    ends = profile.chunk_shares("end", chunk_tokens=chunk_tokens)
    names = [str(number + 1) for number in range(len(starts) - 1)] + [f"{len(starts) - 1}+"]
    rows = tuple(
        (Cell(name), Cell(f"{start:.1%}"), Cell(f"{end:.1%}"))
        for name, start, end in zip(names, starts, ends, strict=True)
    )
    return Table((f"chunk of {chunk_tokens} tokens", "start", "end"), rows, profile_notes(profile, chunk_tokens))


def profile_notes(profile: PositionProfile, window: int = CHUNK_TOKENS) -> tuple[str, ...]:
    """What a reader must know beside the table: prefix, bias, counts and what is missing."""
    counts = profile.passage_counts()
    deciles = " ".join(f"{rate:.3f}" for rate in profile.decile_rates())
    lengths = profile.lengths()
    notes = [
        profile.prefix_sentence(window),
        profile.bias_sentence(),
        f"{profile.name}: {len(profile.records)} pairs, {profile.share_not_located:.1%} not located, "
        f"{profile.share_ambiguous:.1%} of the located ambiguous; documents have "
        f"{lengths.mean() if len(lengths) else 0:.0f} {profile.tokenizer} tokens on average.",
        *_quantile_notes(profile),
        f"Relevant passages a document: one in {counts.one:.1%}, one or two in {counts.one_or_two:.1%}, three or more "
        f"in {counts.three_or_more:.1%} of {counts.documents}.",
        f"Relevant share by tenth of the document: {deciles}.",
        f"{_distances(profile.divergence())}.",
        f"{profile.only_one_way} wholly relevant documents are left out of shifts and distances.",
    ]
    notes += [f"Not located, {count}: {reason}" for reason, count in list(profile.reasons().items())[:5]]
    return tuple(notes)


def _distances(found: Divergence) -> str:
    ks, kl = found.ks_by_chance, found.kl_by_chance
    return (
        f"KS {found.ks:.3f} and KL {found.kl:.4f} from chance, which itself gives {ks.mean:.3f} and {kl.mean:.4f} on "
        f"average and at most {ks.high:.3f} and {kl.high:.4f} in 95% of draws"
    )


def _quantile_notes(profile: PositionProfile) -> list[str]:
    tokens = profile.quantiles()
    if "start" not in tokens:
        return []
    words = {"start": "first relevant passages start by", "end": "end by", "length": "documents have at most"}
    parts = [f"{words[name]} {' / '.join(map(str, values))}" for name, values in tokens.items()]
    return [f"10 / 50 / 90% of the {', '.join(parts)} tokens."]


def passage_count_table(profiles: Mapping[str, PositionProfile], *, max_tokens: int = PASSAGE_TOKENS) -> Table:
    """Relevant passages a document, a row a profile (the PARADE paper's Table 11)."""
    rows = []
    for name, profile in profiles.items():
        counts = profile.passage_counts(max_tokens=max_tokens)
        shares = (counts.one, counts.one_or_two, counts.three_or_more)
        rows.append((Cell(name), Cell(str(counts.documents)), *(Cell(f"{share:.1%}") for share in shares)))
    labels = ", ".join(f"{name} {grade}" for name, grade in PASSAGE_LABELS.items())
    notes = (
        f"Documents with relevant passages, by their number; sentences within {max_tokens} tokens are one passage, "
        "judged pieces stay apart.",
        f"The paper counts passages from these grades: {labels}.",
    )
    return Table(("profile", "documents", "one", "one or two", "three or more"), tuple(rows), notes)


def reach_table(reaches: Sequence[Reach]) -> Table:
    """Share of pairs that a window can serve, by rule, with interval and bounds."""
    rows = tuple(
        (
            Cell(str(one.window)),
            Cell(one.rule),
            Cell(f"{one.located.value:.3f}"),
            Cell(f"{one.located.low:.3f} to {one.located.high:.3f}"),
            Cell(f"{one.bounds.low:.3f} to {one.bounds.high:.3f}"),
        )
        for one in reaches
    )
    notes = (
        "Share of relevant pairs whose evidence a window holds, among located pairs, 95% interval over queries; "
        "the bounds hold whatever became of pairs that were not located.",
    )
    return Table(("window", "rule", "share", "95% interval", "bounds"), rows, notes)


def ceiling_table(
    ceilings: Mapping[int, Ceiling], measures: Sequence[str], efficiencies: Mapping[tuple[int, str], Interval]
) -> Table:
    """The perfect ranker's means by window and what became of the queries; efficiencies by (window, measure)."""
    fates = FATES
    rows = []
    for window, one in ceilings.items():
        shares = one.fate_shares()
        cells = [Cell(str(window)), *(Cell(_bounds(one, measure)) for measure in measures)]
        rows.append((*cells, *(Cell(f"{shares[fate]:.3f}") for fate in fates)))
    notes = ["Best means of any ranker of these candidates that sees only the window; the rest are shares of queries."]
    notes += [
        f"Window {window}: the run reaches {value.value:.3f} [{value.low:.3f}, {value.high:.3f}] of the ceiling in "
        f"{measure} ({value.clusters} queries)."
        for (window, measure), value in efficiencies.items()
    ]
    dropped = next(iter(ceilings.values())).dropped_queries if ceilings else ()
    if dropped:
        notes.append(f"{len(dropped)} queries without candidates or without a relevant document are left out.")
    return Table(("window", *measures, *fates), tuple(rows), tuple(notes))


def statistics_table(statistics: Sequence[CollectionStatistics]) -> Table:
    """The papers' document and query tables in one."""
    rows = tuple(
        (
            Cell(one.name),
            Cell(str(one.documents)),
            Cell(f"{one.document_tokens:.1f}"),
            Cell(str(one.longest_document)),
            Cell(str(one.queries)),
            Cell(f"{one.query_tokens:.1f}"),
            Cell(f"{one.relevant_per_query:.1f}"),
        )
        for one in statistics
    )
    headings = ("collection", "documents", "tokens", "longest", "queries", "query tokens", "relevant a query")
    notes = tuple(f"{one.name}: tokens of {one.tokenizer}; {one.judged_queries} judged queries." for one in statistics)
    return Table(headings, rows, notes)


def _bounds(ceiling: Ceiling, measure: str) -> str:
    low, high = ceiling.mean(measure)
    return f"{low:.3f}" if abs(high - low) < 5e-4 else f"{low:.3f} to {high:.3f}"
