"""Garg, Tsipras, Liang, Valiant 2022 (arXiv 2208.01066): what can transformers learn in-context?

Here are the golden files of in-context predictors on function classes (`golden`), its own and those of the papers after
it.
"""
