"""Audit a ranker of your own: any function of a query and a list of texts."""

from longrank.audit.design import make_design
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import toy_source
from longrank.audit.window import probe_window
from longrank.rankers.adapters import FunctionRanker


def first_words(query: str, texts: list[str]) -> list[float]:
    """How many of the query's longer words are among the first hundred words of each text."""
    asked = {word for word in query.lower().strip("?").split() if len(word) > 4}
    return [float(len(asked & set(text.lower().split()[:100]))) for text in texts]


def main() -> None:
    ranker = FunctionRanker(first_words)
    window = probe_window(ranker, longest=512)
    print(f"It reads {window.words} words and cuts the {window.cut} of a document.")

    design = make_design(toy_source(24), AuditSettings(queries=24, slots=4, lengths=(256,), draws=999))
    findings = audit(ranker, design, name="first words").findings
    print(f"{findings.outcome.value}: {findings.reason}")


if __name__ == "__main__":
    main()
