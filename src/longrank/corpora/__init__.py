"""Where texts, queries and judgements come from: file formats, a store on disk, and a catalog of sources."""
