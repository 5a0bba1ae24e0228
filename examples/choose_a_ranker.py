"""Harden a ranker of your own, and use what was found."""

from longrank import Document, Query
from longrank.audit.design import make_design
from longrank.audit.harden import build_wrapper, harden
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import toy_source
from longrank.rankers.adapters import FunctionRanker


def first_words(query: str, texts: list[str]) -> list[float]:
    """How many of the query's longer words are among the first hundred words of each text."""
    asked = {word for word in query.lower().strip("?").split() if len(word) > 4}
    return [float(len(asked & set(text.lower().split()[:100]))) for text in texts]


def main() -> None:
    ranker = FunctionRanker(first_words)
    design = make_design(toy_source(24), AuditSettings(queries=24, slots=4, lengths=(256,), draws=999))
    result = harden(ranker, design, name="first words", longest=1024)
    for trial in result.trials:
        label = "as it is" if trial.wrapper is None else trial.wrapper.name
        print(f"{label}: {trial.audit.findings.outcome.value}, reads {trial.cost:.1f} times the words")
    print(result.advice)

    if result.chosen is not None and result.chosen.wrapper is not None:
        wrapped = build_wrapper(ranker, result.chosen.wrapper)
        late = Document("late", "Nothing here. " * 300 + "The lighthouse keeper painted the staircase.")
        print(wrapped.score(Query("q", "who painted the lighthouse staircase?"), [late]).values)


if __name__ == "__main__":
    main()
