"""Language models on this machine, through transformers: a folder, a GGUF file, or a hub id."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import IclearnError
from ..core.memory import available_bytes
from .extra import need
from .prompts import ANSWER, SCALE
from .replies import Read, Reply

NEW_TOKENS = 6  # of an answer read as text
MOST_PROMPTS = 256  # in a batch


class LocalModel:
    """A causal language model with its tokenizer.

    Prompts are sorted by length, padded on the right and run in batches as large as the memory allows: a causal model
    never looks at what follows, so padding cannot change an answer. Where the prompts of a call begin with the same
    tokens for at least half their length, that prefix is run once and its keys and values are shared.

    Args:
        model: a transformers model for causal language modeling.
        tokenizer: its tokenizer.
        identity: what determines its replies.
        batch_size: prompts run at once; None for as many as half of the free memory holds.
    """

    def __init__(self, model: Any, tokenizer: Any, identity: str, *, batch_size: int | None = None) -> None:
        if batch_size is not None and batch_size < 1:
            raise IclearnError(f"the batch size must be at least 1, not {batch_size}")
        self.model, self.tokenizer, self.identity, self.batch_size = model.eval(), tokenizer, identity, batch_size
        self._torch = need("torch")
        self.prefix_tokens_saved = 0

    @functools.cached_property
    def scale(self) -> tuple[str, list[int]]:
        """What `scale_tokens` says of the tokenizer."""
        return scale_tokens(self.tokenizer)

    @property
    def _where(self) -> Any:
        return next(self.model.parameters()).device

    @property
    def device(self) -> str:
        """Where it runs, with versions."""
        where = self._where
        name = self._torch.cuda.get_device_name(where) if where.type == "cuda" else where.type
        precision = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        return f"{name} ({precision}, torch {self._torch.__version__}, transformers {need('transformers').__version__})"

    def _batch_size(self, tokens: int) -> int:
        """How many prompts of so many tokens are run at once."""
        if self.batch_size is not None:
            return self.batch_size
        config, where = self.model.config, self._where
        layers, width = getattr(config, "num_hidden_layers", 32), getattr(config, "hidden_size", 4096)
        free = self._torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else available_bytes()
        # of a token: its keys and values in every layer, and the states of one layer, all in the widest precision
        numbers = (2 * layers + 16) * width
        return int(min(max(free // 2 // (4 * numbers * tokens), 1), MOST_PROMPTS))

    def replies(self, prompts: Sequence[str], read: Read) -> Iterator[tuple[int, Reply]]:
        """Replies with the index of their prompt, short prompts first."""
        coded = [self.tokenizer(prompt + (self.scale[0] if read == "scale" else "")).input_ids for prompt in prompts]
        longest = max(map(len, coded))
        allowed = getattr(self.model.config, "max_position_embeddings", None)
        if allowed is not None and longest + NEW_TOKENS > allowed:
            raise IclearnError(f"a prompt has {longest} tokens and the model reads {allowed}: use fewer --shots")
        size = self._batch_size(longest)
        if read == "text":
            for batch in _batches(coded, size):
                for i, text in zip(batch, self._generate([prompts[i] for i in batch]), strict=True):
                    yield i, Reply(text=text)
            return
        shared = shared_prefix(coded) if len(coded) > 1 else 0
        shared = shared if 2 * shared >= longest else 0
        with self._torch.inference_mode():
            prefix = self._run([coded[0][:shared]], None).past_key_values if shared else None
            for batch in _batches(coded, size):
                rows = [coded[i][shared:] for i in batch]
                for i, scale in zip(batch, self._scale(rows, prefix), strict=True):
                    yield i, Reply(scale=tuple(scale))
                self.prefix_tokens_saved += shared * len(batch)

    def _run(self, rows: list[list[int]], past: Any, keep: list[int] | None = None) -> Any:
        ids = self._padded(rows)
        kept = self._torch.tensor(keep if keep is not None else [ids.shape[1] - 1], device=self._where)
        cached = keep is None or past is not None
        return self.model(input_ids=ids, past_key_values=past, use_cache=cached, logits_to_keep=kept)

    def _padded(self, rows: list[list[int]]) -> Any:
        """Tokens as one array (row, token), filled up with zeros on the right."""
        width = max(map(len, rows))
        return self._torch.tensor([row + [0] * (width - len(row)) for row in rows], device=self._where)

    def _scale(self, rows: list[list[int]], prefix: Any) -> list[list[float]]:
        """Probabilities of the scale's tokens after each row."""
        past = None
        if prefix is not None:
            past = copy.deepcopy(prefix)
            past.batch_repeat_interleave(len(rows))
        keep = sorted({len(row) - 1 for row in rows})
        logits = self._run(rows, past, keep).logits.float()
        place = [keep.index(len(row) - 1) for row in rows]
        probabilities = logits[range(len(rows)), place].softmax(-1)[:, self.scale[1]]
        if not bool(self._torch.isfinite(probabilities).all()):
            raise IclearnError("the model gave probabilities that are no numbers: try --dtype float32")
        return probabilities.cpu().tolist()

    def _generate(self, prompts: list[str]) -> list[str]:
        """A few greedy tokens after each prompt, as text."""
        tokenizer = self.tokenizer
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        coded = tokenizer(prompts, return_tensors="pt", padding=True).to(self._where)
        coded.pop("token_type_ids", None)
        with self._torch.inference_mode():
            options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
            out = self.model.generate(**coded, **options)
        return tokenizer.batch_decode(out[:, coded["input_ids"].shape[1] :], skip_special_tokens=True)


def scale_tokens(tokenizer: Any) -> tuple[str, list[int]]:
    """What to write after "Score:" so that one token completes the answer, and that token for each mark."""
    coded = [tokenizer(f"\n{ANSWER} {mark}").input_ids for mark in SCALE]
    last = [ids[-1] for ids in coded]
    same = all(ids[:-1] == coded[0][:-1] for ids in coded)
    for joiner in (" ", ""):
        if same and len(set(last)) == len(SCALE) and tokenizer(f"\n{ANSWER}{joiner}").input_ids == coded[0][:-1]:
            return joiner, last
    raise IclearnError("this tokenizer does not write the marks 0 to 5 as one token each: use --read text")


def shared_prefix(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with, leaving each at least one of its own.

    >>> shared_prefix([[1, 2, 3], [1, 2, 4, 5]])
    2
    """
    end = min(map(len, rows)) - 1
    different = (i for i in range(end) if any(row[i] != rows[0][i] for row in rows))
    return next(different, max(end, 0))


def _batches(rows: list[list[int]], size: int) -> Iterator[list[int]]:
    """Indices of the rows, short rows first, `size` at a time."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return (order[begin : begin + size] for begin in range(0, len(order), size))


def pick_device(asked: str) -> str:
    """``auto`` takes an accelerator when torch sees one."""
    torch = need("torch")
    if asked == "gpu" and not torch.cuda.is_available():
        raise IclearnError("--device gpu, but torch sees no CUDA device here: use --device cpu or auto")
    return "cuda" if asked in ("auto", "gpu") and torch.cuda.is_available() else "cpu"


def load_local(source: str | Path, *, dtype: str, device: str, identity: str) -> LocalModel:
    """A model from a GGUF file, a folder or a hub id, loaded onto a device; see `load_model` for the arguments."""
    torch, transformers = need("torch"), need("transformers")
    where: dict[str, Any] = {}
    name = str(source)
    if name.endswith(".gguf"):
        need("gguf")
        need("accelerate")
        path = Path(source).resolve()
        name, where = str(path.parent), {"gguf_file": path.name}
    try:
        with _quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
            model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype), **where)
    except Exception as error:  # transformers raises many kinds
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        wanted = "give a GGUF file, a folder saved by transformers, or a hub id this machine can reach"
        raise IclearnError(f"could not load the model {source} ({reason}): {wanted}") from None
    return LocalModel(model.to(pick_device(device)), tokenizer, identity)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """No progress bars (they go to stderr) and no advice while loading."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
