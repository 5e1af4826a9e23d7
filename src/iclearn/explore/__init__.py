"""The explorer: a page on which attention is trained while one looks, alone in one file or with Python behind it."""
