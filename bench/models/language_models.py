"""Architectures of transformers at small configurations with random weights: text, images and audio."""

import torch
from torch import nn

SMALL = dict(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
IMAGES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8)
OF_GPT = dict(vocab_size=500, n_embd=64, n_layer=2, n_head=4)
GROUPED = dict(SMALL, num_key_value_heads=2)

ENCODERS = {
    "Bert": SMALL, "Roberta": SMALL, "Electra": SMALL, "DebertaV2": SMALL, "MPNet": SMALL, "RoFormer": SMALL, "Ernie": SMALL,
    "ConvBert": SMALL, "DistilBert": dict(vocab_size=500, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "Albert": dict(SMALL, embedding_size=32), "MobileBert": dict(SMALL, embedding_size=32, intra_bottleneck_size=64, true_hidden_size=64),
    "ModernBert": dict(SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
    "SqueezeBert": dict(SMALL, embedding_size=64), "FNet": SMALL,
}
DECODERS = {
    "GPT2": OF_GPT, "GPTNeoX": SMALL, "Llama": SMALL, "Mistral": GROUPED, "Qwen2": GROUPED,
    "Qwen3": dict(GROUPED, head_dim=16), "Gemma": dict(SMALL, head_dim=16, num_key_value_heads=4),
    "Gemma2": dict(SMALL, head_dim=16, num_key_value_heads=2), "Phi": SMALL, "Falcon": SMALL, "StableLm": dict(SMALL, num_key_value_heads=4),
    "OPT": dict(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, word_embed_proj_dim=64),
    "Bloom": dict(vocab_size=500, hidden_size=64, n_layer=2, n_head=4), "GPTJ": dict(OF_GPT, rotary_dim=8),
    "GPTNeo": dict(vocab_size=500, hidden_size=64, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], intermediate_size=128),
    "Olmo": SMALL, "Olmo2": SMALL, "Cohere": SMALL, "Starcoder2": SMALL, "CodeGen": dict(OF_GPT, rotary_dim=8), "Granite": SMALL,
    "Mamba": dict(vocab_size=500, hidden_size=64, num_hidden_layers=2, state_size=8),
}


class LastHidden(nn.Module):
    """A model of transformers whose result is the first tensor of its output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


class EncoderDecoder(nn.Module):
    """An encoder-decoder whose two inputs are the same tokens."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(input_ids=x, decoder_input_ids=x)[0]


def tokens(batch=2, length=16):
    return (torch.randint(3, 400, (batch, length)),)


def models():
    import transformers as t

    def named(name, extra, model, wrap=LastHidden):
        config = getattr(t, name + "Config")(**extra)
        config.use_cache = False
        return wrap(getattr(t, model)(config))

    lengths = {"second_length": lambda: tokens(2, 23)}
    for name, extra in (ENCODERS | DECODERS).items():
        yield "hf." + name.lower(), (lambda name=name, extra=extra: named(name, extra, name + "Model")), tokens, lengths
    t5 = dict(vocab_size=500, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    yield "hf.t5", (lambda: named("T5", t5, "T5Model", EncoderDecoder)), tokens, lengths
    bart = dict(vocab_size=500, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                encoder_ffn_dim=128, decoder_ffn_dim=128)
    yield "hf.bart", (lambda: named("Bart", bart, "BartModel", EncoderDecoder)), tokens, lengths
    yield "hf.pegasus", (lambda: named("Pegasus", bart, "PegasusModel", EncoderDecoder)), tokens, lengths

    images = lambda batch=2: (torch.randn(batch, 3, 32, 32),)
    for name in "ViT DeiT Dinov2 ViTMSN".split():
        yield "hf." + name.lower(), (lambda name=name: named(name, IMAGES, name + "Model")), images, {}
    clip = dict(IMAGES, projection_dim=32)
    yield "hf.clip", (lambda: named("CLIPVision", clip, "CLIPVisionModel")), images, {}
    yield "hf.siglip", (lambda: named("SiglipVision", IMAGES, "SiglipVisionModel")), images, {}
    segformer = dict(hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4])
    yield "hf.segformer", (lambda: named("Segformer", segformer, "SegformerModel")), images, {}

    audio = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=[32] * 7, num_conv_pos_embeddings=16,
                 num_conv_pos_embedding_groups=4, mask_time_prob=0.0, layerdrop=0.0)
    wave = lambda batch=2, length=2000: (torch.randn(batch, length),)
    long = {"second_length": lambda: wave(2, 2800)}
    for name in "Wav2Vec2 Hubert".split():
        yield "hf." + name.lower(), (lambda name=name: named(name, audio, name + "Model")), wave, long
    whisper = dict(vocab_size=500, d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128, num_mel_bins=20,
                   max_source_positions=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)

    def whisper_encoder():
        config = t.WhisperConfig(**whisper)
        from transformers.models.whisper.modeling_whisper import WhisperEncoder
        return LastHidden(WhisperEncoder(config))

    yield "hf.whisper_encoder", whisper_encoder, lambda batch=2: (torch.randn(batch, 20, 100),), {}
    spectrogram = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_mel_bins=32, max_length=64)
    yield "hf.ast", (lambda: named("AST", spectrogram, "ASTModel")), lambda batch=2: (torch.randn(batch, 64, 32),), {}
