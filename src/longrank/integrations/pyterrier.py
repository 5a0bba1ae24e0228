"""A ranker as a PyTerrier transformer: ``bm25 >> pt.text.get_text(index) >> Reranker(ranker)``; starts no JVM."""

from typing import Any

from longrank.core.errors import MissingExtra
from longrank.integrations.scoring import RankerOrName, as_ranker, score_texts

try:
    import pyterrier as pt
except ImportError:
    raise MissingExtra("pyterrier", "pyterrier", purpose="the PyTerrier adapter") from None


class Reranker(pt.Transformer):  # type: ignore[misc]
    """Frames of ``qid, query, docno`` and a column of text come back with a new ``score`` and ``rank``."""

    def __init__(self, ranker: RankerOrName, *, text_field: str = "text") -> None:
        self.ranker = as_ranker(ranker)
        self.text_field = text_field

    def transform(self, inp: Any) -> Any:
        """The same rows, scored query by query."""
        pt.validate.result_frame(inp, extra_columns=["query", self.text_field])
        out = inp.drop(columns=["score", "rank"], errors="ignore").reset_index(drop=True)
        values = [0.0] * len(out)
        for _, rows in out.groupby("qid", sort=False):
            texts = [str(text) for text in rows[self.text_field]]
            for place, value in zip(rows.index, score_texts(self.ranker, rows["query"].iloc[0], texts), strict=True):
                values[place] = value
        return pt.model.add_ranks(out.assign(score=values))
