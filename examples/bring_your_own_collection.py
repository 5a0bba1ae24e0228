"""Texts of your own as a collection: saved, loaded, profiled, and what a short model could reach at most."""

from pathlib import Path
from tempfile import TemporaryDirectory

from longrank import Collection, Document, Qrels, Query, load_folder
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import CharSpan, GoldSpan
from longrank.corpora.catalog.folder import save_collection
from longrank.positions.ceiling import reach
from longrank.positions.gold import gold_estimator
from longrank.positions.matching import PassageMatcher
from longrank.positions.profiling import profile_positions

NOTES = "The committee met again and adjourned without a decision. "
ANSWERS = {
    "q1": ("why is the bridge green?", "The bridge was painted green, because green paint was cheapest.", 40),
    "q2": ("when did the harbour close?", "The harbour closed in November, when the ice came.", 2),
}


def collection() -> Collection:
    documents, queries, grades, spans = {}, {}, {}, []
    for number, (query_id, (question, answer, sentences)) in enumerate(ANSWERS.items()):
        before = NOTES * sentences
        document = Document(f"d{number}", before + answer + " " + NOTES)
        documents[document.id] = document
        queries[query_id] = Query(query_id, question)
        grades[query_id] = {document.id: 1}
        place = CharSpan(len(before), len(before) + len(answer))
        spans.append(GoldSpan(query_id, document.id, place, "by hand"))
    return Collection("minutes", documents, queries, Qrels(grades), tuple(spans))


def main(folder: Path) -> None:
    save_collection(collection(), folder)
    mine = load_folder(folder, strict=True)
    print(f"{len(mine.documents)} documents, {len(mine.queries)} queries, {len(mine.spans)} marked places")

    profile = profile_positions(mine, gold_estimator(mine.spans), WordTokenizer())
    print(profile.prefix_sentence(100))
    seen = reach(profile, window=100)
    print(f"A model that reads 100 words can serve {seen.located.value:.0%} of the relevant pairs.")

    text = mine.documents["d0"].text
    found = PassageMatcher().match("the bridge was painted green because green paint was cheapest", text)
    print(found.method, [text[span.start : span.stop] for span in found.spans])


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(temporary) / "minutes")
