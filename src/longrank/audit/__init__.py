"""Does this ranker read the whole document?"""
