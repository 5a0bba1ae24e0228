import pytest

from longrank.testing import WordOverlapRanker

pytest.importorskip("pyterrier", reason="pyterrier is not installed")

import pandas as pd
import pyterrier as pt

from longrank.integrations.pyterrier import Reranker

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:The inplace keyword"
)  # pandas, of PyTerrier

FRAME = pd.DataFrame(
    [
        ("q1", "red fox", "a", "nothing", 3.0),
        ("q2", "dog", "a", "nothing", 9.0),
        ("q1", "red fox", "b", "a red fox", 2.0),
        ("q2", "dog", "c", "a red dog", 8.0),
        ("q1", "red fox", "c", "a red dog", 1.0),
    ],
    columns=["qid", "query", "docno", "text", "score"],
)


def test_rows_get_new_scores_and_ranks_and_no_jvm_starts() -> None:
    out = Reranker(WordOverlapRanker())(FRAME)
    found = {(row.qid, row.docno): (row.score, row.rank) for row in out.itertuples()}
    assert found == {
        ("q1", "b"): (1.0, 0),
        ("q1", "c"): (0.5, 1),
        ("q1", "a"): (0.0, 2),
        ("q2", "c"): (1.0, 0),
        ("q2", "a"): (0.0, 1),
    }
    assert not pt.java.started()


def test_it_stands_in_a_pipeline_before_and_after_other_transformers() -> None:
    source = pt.Transformer.from_df(FRAME, uniform=True)
    out = (source >> Reranker(WordOverlapRanker()) % 1)(pd.DataFrame([("q1", "red fox")], columns=["qid", "query"]))
    assert set(out.query("qid == 'q1'").docno) == {"b"}


def test_another_column_may_hold_the_text_and_a_missing_one_is_refused() -> None:
    out = Reranker(WordOverlapRanker(), text_field="body")(FRAME.rename(columns={"text": "body"}))
    assert out.score.max() == 1.0
    with pytest.raises(Exception, match="body"):
        Reranker(WordOverlapRanker(), text_field="body")(FRAME)


def test_a_frame_without_rows_keeps_its_columns() -> None:
    out = Reranker(WordOverlapRanker())(FRAME.head(0))
    assert len(out) == 0
    assert {"qid", "query", "docno", "text", "score", "rank"} <= set(out.columns)
