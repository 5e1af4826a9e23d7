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


def write_gguf(path, torch):
    """A tiny Qwen2 as a GGUF file, with a tokenizer that writes every digit as a token."""
    import json

    import gguf

    tokenizer = make_tokenizer("apart")
    model = make_model("qwen2", len(tokenizer), torch)
    marks = [tokenizer.convert_tokens_to_ids(str(mark)) for mark in range(6)]
    with torch.no_grad():  # marks are likelier than anything else: half a character has no probability in llama.cpp
        model.lm_head.weight[[i for i in range(len(tokenizer)) if i not in marks]] = 0.0
    config, bpe = model.config, json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(str(path), "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    special = {"<s>", "</s>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([int(gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL) for t in tokens])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in bpe["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
