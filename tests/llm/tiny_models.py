"""Tiny real language models: random weights in transformers' own Llama and Qwen2, tokenizers trained on the spot."""

from __future__ import annotations

TEXT = [
    "Rate how similar in meaning two sentences are, from 0 to 5. Answer with one number.",
    "Sentence 1: A cat sits on the red mat.\nSentence 2: Two dogs run by the sea.\nInitial guess: 3.2\nScore: 4",
    *(f"Score: {mark}\nInitial guess: {mark}.{mark}\n\n" for mark in range(6)),
]


def make_tokenizer(kind: str):
    """``apart`` writes " 3" as two tokens, as Llama 3 and SmolLM do; ``joined`` as one, as GPT-2 does."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = tokenizers.Tokenizer(models.BPE())
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    if kind == "apart":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXT * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="</s>")


def make_model(family: str, vocabulary: int, torch):
    import transformers

    sizes = {
        "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048,
        "bos_token_id": 0, "eos_token_id": 1, "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    if family == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes))
