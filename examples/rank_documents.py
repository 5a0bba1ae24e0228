"""Rank long texts for a question, with nothing to train and nothing to download."""

import longrank

notes = "The committee met again and adjourned without a decision. " * 120
documents = [
    notes + "In the end the bridge was painted green, because green paint was cheapest that year.",
    notes + "In the end the harbour was closed for the winter, because of the ice.",
    notes,
]

ranker = longrank.load("minilm")
for hit in ranker.rank("why is the bridge green?", documents, top_k=2):
    print(f"{hit.score:.3f}  document {hit.index}: …{hit.text[-60:]}")
