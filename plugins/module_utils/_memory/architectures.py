# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Which kind of memory layout each architecture has. One row each, facts only.

An architecture that is not here is not planned: a number for an unknown layout would be a guess.
"""

from __future__ import annotations

from dataclasses import dataclass

# Families: how keys and values are stored.
ATTENTION = "attention"  # every layer stores heads x dimensions (MHA, GQA, MQA)
LATENT = "latent"  # MLA: one compressed row a token
WINDOW = "window"  # some layers keep only a sliding window
DELTA = "delta"  # gated delta net layers beside full attention
MAMBA2 = "mamba2"  # Mamba-2 layers beside full attention
UNCOVERED = "uncovered"  # known, and known not to follow the formulas


@dataclass(frozen=True)
class Architecture:
    """One row: the name in config.json, its family, whether it has a vision or audio part."""

    name: str
    family: str
    multimodal: bool = False
    why_not: str = ""
    on_request: bool = False  # multimodal only with --enable-multimodal


def _plain(*names: str) -> tuple[Architecture, ...]:
    return tuple(Architecture(name, ATTENTION) for name in names)


def _plain_multimodal(*names: str) -> tuple[Architecture, ...]:
    return tuple(Architecture(name, ATTENTION, multimodal=True) for name in names)


def _uncovered(why_not: str, *names: str) -> tuple[Architecture, ...]:
    return tuple(Architecture(name, UNCOVERED, why_not=why_not) for name in names)


ARCHITECTURES: tuple[Architecture, ...] = (
    _plain(
        "ApertusForCausalLM",
        "ArceeForCausalLM",
        "BaichuanForCausalLM",
        "BailingMoeForCausalLM",
        "BailingMoeV2ForCausalLM",
        "ChatGLMModel",
        "CohereForCausalLM",
        "Cohere2ForCausalLM",
        "DeepseekForCausalLM",
        "Ernie4_5_ForCausalLM",
        "Ernie4_5_MoeForCausalLM",
        "ExaoneForCausalLM",
        "Exaone4ForCausalLM",
        "GemmaForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Glm4ForCausalLM",
        "Glm4MoeForCausalLM",
        "GPT2LMHeadModel",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "Grok1ForCausalLM",
        "HunYuanDenseV1ForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "InternLM2ForCausalLM",
        "InternLM3ForCausalLM",
        "LlamaForCausalLM",
        "MiMoForCausalLM",
        "MiniCPMForCausalLM",
        "MiniMaxM2ForCausalLM",
        "Ministral3ForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "OlmoForCausalLM",
        "Olmo2ForCausalLM",
        "OlmoeForCausalLM",
        "OPTForCausalLM",
        "OrionForCausalLM",
        "PersimmonForCausalLM",
        "PhiForCausalLM",
        "Phi3ForCausalLM",
        "PhiMoEForCausalLM",
        "QWenLMHeadModel",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "SolarForCausalLM",
        "StableLmForCausalLM",
        "Starcoder2ForCausalLM",
        "XverseForCausalLM",
    )
    # Draft models.
    + _plain(
        "LlamaForCausalLMEagle",
        "LlamaForCausalLMEagle3",
        "Qwen2ForCausalLMEagle",
        "DFlashDraftModel",
        "DFlashLagunaForCausalLM",
    )
    + _plain_multimodal(
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "InternVLChatModel",
        "LlavaForConditionalGeneration",
        "Mistral3ForConditionalGeneration",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
    )
    + (
        Architecture("DeepseekV2ForCausalLM", LATENT),
        Architecture("DeepseekV3ForCausalLM", LATENT),
        Architecture("DeepseekV32ForCausalLM", LATENT),
        Architecture("Glm4MoeLiteForCausalLM", LATENT),
        Architecture("GlmMoeDsaForCausalLM", LATENT),
        Architecture("MiniCPM3ForCausalLM", LATENT),
        Architecture("MistralLarge3ForCausalLM", LATENT),
        Architecture("KimiVLForConditionalGeneration", LATENT, multimodal=True),
        Architecture("KimiK25ForConditionalGeneration", LATENT, multimodal=True),
        Architecture("Eagle3DeepseekV2ForCausalLM", LATENT),
        Architecture("GptOssForCausalLM", WINDOW),
        Architecture("LagunaForCausalLM", WINDOW),
        Architecture("MellumForCausalLM", WINDOW),
        Architecture("MiMoV2FlashForCausalLM", WINDOW),
        Architecture("MiMoV2ForCausalLM", WINDOW),
        Architecture("Gemma4ForCausalLM", WINDOW),
        Architecture("Gemma4ForConditionalGeneration", WINDOW, multimodal=True),
        Architecture("Gemma4UnifiedForConditionalGeneration", WINDOW, multimodal=True),
        Architecture("Llama4ForConditionalGeneration", WINDOW, multimodal=True, on_request=True),
        Architecture("Gemma3ForConditionalGeneration", ATTENTION, multimodal=True, on_request=True),
        Architecture("Qwen3NextForCausalLM", DELTA),
        Architecture("Qwen3_5ForCausalLM", DELTA),
        Architecture("Qwen3_5MoeForCausalLM", DELTA),
        Architecture("Qwen3_5ForConditionalGeneration", DELTA, multimodal=True),
        Architecture("Qwen3_5MoeForConditionalGeneration", DELTA, multimodal=True),
        Architecture("InternS2PreviewForConditionalGeneration", DELTA, multimodal=True),
        Architecture("FalconH1ForCausalLM", MAMBA2),
        Architecture("GraniteMoeHybridForCausalLM", MAMBA2),
        Architecture("NemotronHForCausalLM", MAMBA2),
    )
    + _uncovered(
        "its compressed attention pools have their own arithmetic",
        "DeepseekV4ForCausalLM",
        "DeepseekV4ForCausalLMDSpark",
    )
    + _uncovered(
        "the state of its Kimi delta attention layers has not been checked against a log",
        "KimiLinearForCausalLM",
        "KimiK3LinearForCausalLM",
        "KimiK3ForConditionalGeneration",
        "BailingMoeV3ForCausalLM",
    )
    + _uncovered(
        "its lightning attention state has its own arithmetic", "BailingMoeV2_5ForCausalLM", "MiniCPMSALAForCausalLM"
    )
    + _uncovered(
        "its sparse index pools have their own arithmetic",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
        "Qwen4ExpForConditionalGeneration",
    )
    + _uncovered(
        "its convolution or Mamba-1 state has not been checked against a log",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "MambaForCausalLM",
        "FalconMambaForCausalLM",
        "JetNemotronForCausalLM",
        "ZayaForCausalLM",
    )
    + _uncovered(
        "some of its layers share or skip keys and values",
        "Gemma3nForCausalLM",
        "Gemma3nForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "DeciLMForCausalLM",
        "MllamaForConditionalGeneration",
        "WhisperForConditionalGeneration",
    )
    + _uncovered(
        "the heads of its window layers are given in a form that is not read here",
        "Step3p5ForCausalLM",
        "Step3p7ForConditionalGeneration",
        "InklingForConditionalGeneration",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "BeamForCausalLM",
    )
)

_BY_NAME = {row.name: row for row in ARCHITECTURES}


def find(name: str) -> Architecture | None:
    return _BY_NAME.get(name)
