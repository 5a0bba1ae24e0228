"""How fast FarRelevant is made, against joining the same passages out of a dict, and whether memory stays flat.

python benchmarks/far_relevant.py --passages 1000000 --documents 20000 200000 --out far_relevant.json

The passages are those of the toy world, repeated under other numbers up to the count asked for; their tokens are
counted beforehand (tokenisation is timed apart). The baseline joins the very passages that the documents hold.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np

from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.seeds import generator
from longrank.core.types import Query
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.assembling import Pool, assemble
from longrank.synthetic.evidence import Divided, Need
from longrank.synthetic.far_relevant import BLOCK, FarRelevant, FarRelevantSettings
from longrank.synthetic.passages import Passages, in_blocks

WRITTEN_PASSAGES = 10_000


def main() -> None:
    """Measure, print and write one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--documents", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    passages, tokenised = counted(chosen.passages)
    result: dict[str, object] = {"passages": len(passages), "tokenising_microseconds_a_passage": tokenised}
    rows = []
    for documents in chosen.documents:
        maker = made(passages, documents)
        before = peak_megabytes()
        start = time.process_time()
        tokens = sum(one.tokens for one in maker.documents())
        seconds = time.process_time() - start
        grown = peak_megabytes() - before
        joining = joined(maker)
        rows.append(
            {
                "documents": documents,
                "mean_tokens": tokens / documents,
                "microseconds_a_document": 1e6 * seconds / documents,
                "microseconds_to_join": 1e6 * joining / documents,
                "ratio": seconds / joining,
                "peak_megabytes_before": before,
                "peak_megabytes_grown": grown,
            }
        )
    text = json.dumps({**result, "runs": rows}, indent=1)
    sys.stdout.write(text + "\n")
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


def peak_megabytes() -> float:
    """Most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def counted(count: int) -> tuple[Passages, float]:
    """Passages in memory, and the time it took to tokenise one."""
    texts = [passage.text for passage in Encyclopedia(0).passages(min(count, WRITTEN_PASSAGES))]
    tokenizer = bert_tokenizer()
    start = time.process_time()
    lengths = tokenizer.lengths(texts)
    spent = 1e6 * (time.process_time() - start) / len(texts)
    copies = -(-count // len(texts))
    many = [f"{text[:-1]} {copy}" for copy in range(copies) for text in texts][:count]
    tokens = np.tile(np.asarray(lengths, dtype=np.int32), copies)[:count]
    return Passages(many, tokens, {f"p{i}": i for i in range(count)}, tokenizer.name), spent


def made(passages: Passages, documents: int) -> FarRelevant:
    """A maker of so many documents: the first passages are evidence, in turn, and the second half is filler."""
    evidence = len(passages) // 2
    needs = tuple(Need(f"q{i}", (f"p{i % evidence}",)) for i in range(documents))
    asking = {need.passage_ids[0]: (need.query_id,) for need in needs}
    divided = Divided(needs, {}, asking, {}, frozenset())
    pool = Pool(passages, np.arange(evidence, len(passages)))
    return FarRelevant("benchmark", {"q0": Query("q0", "")}, divided, pool, FarRelevantSettings(), {})


def joined(maker: FarRelevant) -> float:
    """Seconds to join, out of a dict by id, the passages that the documents hold."""
    passages = maker.pool.passages
    by_id = dict(zip(passages.rows, passages.texts, strict=True))
    names = list(passages.rows)
    seconds = 0.0
    for numbers in in_blocks(len(maker.divided.needs), BLOCK):
        planted = [(passages.row(need.passage_ids[0]),) for need in maker.divided.needs[numbers.start : numbers.stop]]
        rng = generator(f"far-relevant/{numbers.start}", maker.settings.seed)
        found = assemble(planted, maker.pool, maker.settings.placing, numbers=numbers, rng=rng)
        wanted = [[names[row] for row in one.rows] for one in found if one is not None]
        start = time.process_time()
        for ids in wanted:
            " ".join([by_id[name] for name in ids])
        seconds += time.process_time() - start
    return seconds


if __name__ == "__main__":
    main()
