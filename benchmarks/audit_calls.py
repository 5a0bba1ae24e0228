"""How much an audit asks of a ranker, against one that scores every list anew: documents, and words for chunk-max.

    python benchmarks/audit_calls.py [--queries 5]

Counts, so no clock is involved. Prints JSON; fails if chunk-max reads more than half of the words of the naive design.
"""

import argparse
import json
from collections.abc import Sequence

from longrank.audit.design import make_design
from longrank.audit.response import ask, cost_per_query, naive_cost
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import toy_source
from longrank.audit.wrappers import chunk_max
from longrank.core.types import Document, Query, Scores

BAR = 2.0


class Counting:
    """A ranker that counts the words it is shown."""

    def __init__(self) -> None:
        self.words = 0

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """The length of each text."""
        self.words += sum(len(document.text.split()) for document in documents)
        return Scores([float(len(document.text)) for document in documents])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=5)
    count = parser.parse_args().queries
    settings = AuditSettings()
    design = make_design(toy_source(max(8, count)), settings)
    ours, naive = Counting(), Counting()
    for query in design.queries[:count]:
        probe = design.probe(query)
        ask(chunk_max(ours), probe)
        for at in probe.by_length:
            for target in [*at.planted, probe.isolated, at.absent, *at.reversed_ends]:
                chunk_max(naive).score(query, [target, *at.distractors])
    result = {
        "queries": count,
        "documents_per_query": cost_per_query(settings),
        "documents_per_query_naive": naive_cost(settings),
        "chunk_max_words": ours.words,
        "chunk_max_words_naive": naive.words,
        "fewer_words": round(naive.words / ours.words, 2),
    }
    print(json.dumps(result, indent=1))
    assert result["fewer_words"] >= BAR


if __name__ == "__main__":
    main()
