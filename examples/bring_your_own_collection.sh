# A collection of three files, from candidates to a table and a profile of its positions. Run in an empty folder.

# [files]
mkdir -p mine
cat > mine/documents.jsonl <<'END'
{"id": "d1", "text": "Notes of the harbour board. The ice came early, so the harbour was closed for the winter."}
{"id": "d2", "text": "Notes of the bridge committee. In the end the bridge was painted green, the cheapest paint."}
{"id": "d3", "text": "Notes of the school board. The new roof leaks, and the board adjourned."}
END
cat > mine/queries.jsonl <<'END'
{"id": "q1", "text": "why was the harbour closed?"}
{"id": "q2", "text": "why is the bridge green?"}
END
cat > mine/qrels.txt <<'END'
q1 0 d1 1
q2 0 d2 1
END
# [candidates]
longrank retrieve mine --out bm25.trec --depth 10
# [rerank]
longrank rerank minilm mine --candidates bm25.trec --out minilm.trec
longrank evaluate bm25.trec minilm.trec --qrels mine/qrels.txt --measures "RR nDCG@10"
# [spans]
cat > mine/spans.jsonl <<'END'
{"query_id": "q1", "document_id": "d1", "start": 28, "stop": 88, "unit": "characters"}
{"query_id": "q2", "document_id": "d2", "start": 31, "stop": 91, "unit": "characters"}
END
longrank profile mine --out mine.profile.jsonl
longrank ceiling mine.profile.jsonl --window 5 --window 20
