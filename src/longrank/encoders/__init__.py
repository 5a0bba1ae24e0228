"""Text models as we use them: rows of token ids in, one vector a row out, token states on request."""
