"""`iclearn reproduce PAPER [FIGURE…]`: the paper again, figure by figure, and a verdict for every claim."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .parsing import parse


@dataclass(frozen=True)
class ReproduceArgs:
    """Reproduce a paper: train, draw, judge. Data already stored is not computed again."""

    paper: Annotated[str, tyro.conf.Positional]
    """zhang2025, xie2025, li2024 or xie2025-llm."""
    figures: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Figures to do; all of them when none is named."""
    seeds: int | None = None
    """Seeds of a figure with random starts. Default: 6; for xie2025-llm 1."""
    out: Path | None = None
    """Folder for figures, data, verdicts and card. Default: reproduced/PAPER."""
    draw_only: bool = False
    """Draw and judge what is stored; never simulate."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to run."""
    workers: int | None = None
    """Runs side by side. Default: one per core."""
    list: bool = False
    """List the figures and their claims, and do nothing."""
    stsb: str | None = None
    """xie2025-llm: folder of the STS-Benchmark files, or a hub id."""
    pairs: int | None = None
    """xie2025-llm: pairs to score. Default: 200."""
    model: str | None = None
    """xie2025-llm: smollm2 (the default), llama3.1-8b, qwen2.5-7b, a GGUF file, a folder, a hub id or a URL."""
    shots: int | None = None
    """xie2025-llm: scored examples in a prompt. Default: 10."""
    features: Literal["static", "hidden"] | None = None
    """xie2025-llm: what the guess model reads: static embeddings (default) or the model's hidden states."""
    read: Literal["scale", "text"] | None = None
    """xie2025-llm: answers as an expectation over the scale's tokens (default), or parsed from text."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """xie2025-llm: precision of the model. Default: float32."""
    batch_size: int | None = None
    """xie2025-llm: prompts run at once. Default: 16."""
    shared_shots: bool = False
    """xie2025-llm: the same examples for every pair, their prefix computed once."""
    server_model: str | None = None
    """xie2025-llm: name of the model on the server. Default: the first it lists."""


LLM_FLAGS = ("stsb", "pairs", "model", "shots", "features", "read", "dtype", "batch_size", "server_model")


def run(argv: Sequence[str]) -> int:
    args = parse(ReproduceArgs, argv, "iclearn reproduce")
    if args.device != "auto":
        os.environ["JAX_PLATFORMS"] = {"cpu": "cpu", "gpu": "cuda,cpu"}[args.device]
    from ..papers.collect import collect, default_seeds, load_paper, paper_options, read_json

    paper = load_paper(args.paper)
    if args.list:
        for figure in paper.figures:
            print(f"{figure.id}: {figure.title}" + (f" ({figure.cost})" if figure.cost else ""))
            for claim in figure.claims:
                print(f"    {claim.id}: {claim.statement}")
        return 0
    out = args.out or Path("reproduced") / paper.id
    from ..report.paper import Drawing, summary_line, terminal_table, write_report

    given = {name: getattr(args, name) for name in LLM_FLAGS} | {"shared_shots": args.shared_shots or None}
    options = paper_options(paper, given, out, draw_only=args.draw_only, device=args.device)
    seeds = default_seeds(paper, out if args.draw_only else None) if args.seeds is None else args.seeds
    with status_line() as say, Drawing(out) as draw:
        results = collect(
            paper, args.figures, out, seeds=seeds, draw_only=args.draw_only, workers=args.workers, progress=say,
            each=draw, options=options,
        )  # fmt: skip
    page = write_report(paper, out)
    chosen = {result.figure.id for result in results}
    verdicts = [v for v in read_json(out / "verdicts.json", []) if v["figure"] in chosen]
    terminal_table(verdicts)
    print(f"{summary_line(verdicts)} Page: {page}")
    broken = [v for v in verdicts if v["should_hold"] and v["verdict"] in ("contradicted", "failed")]
    for v in broken:
        print(f"{v['figure']}/{v['claim']} should hold and is {v['verdict']}: {v['statement']}", file=sys.stderr)
    return 1 if broken else 0


class status_line:
    """What is being done: a spinner on a terminal, one line a figure elsewhere."""

    def __enter__(self):
        self.status = None
        if sys.stderr.isatty():
            from rich.console import Console

            self.status = Console(stderr=True).status("…")
            self.status.start()
        last = ""

        def say(figure: str, text: str) -> None:
            nonlocal last
            if self.status is not None:
                self.status.update(f"{figure}: {text}")
            elif figure != last:
                print(f"{figure} …", file=sys.stderr, flush=True)
            last = figure

        return say

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()
