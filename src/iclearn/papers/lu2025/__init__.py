"""Lu, Letey, Zavatone-Veth, Maiti, Pehlevan: asymptotic theory of in-context learning by linear attention.

PNAS 122(28), 2025, arXiv 2405.11751. Here are its golden files (`golden`) and trained matrices Γ* (`setup`), which it
shares with letey2026.
"""
