# SPDX-License-Identifier: GPL-3.0-or-later
"""One example of each rule that breaks it and nothing else, and one beside it that breaks nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OLD, MID, V14, V18, NEW = "0.4.6.post5", "0.5.9", "0.5.14", "0.5.18", "0.5.23"
QWEN = {"num_attention_heads": 40, "num_key_value_heads": 8, "num_hidden_layers": 64, "max_position_embeddings": 40960}
GDN = {**QWEN, "linear_num_value_heads": 48}
A6000 = {"index": 0, "name": "NVIDIA RTX A6000"}
H100 = {"index": 0, "name": "NVIDIA H100 80GB HBM3"}


@dataclass(frozen=True)
class Example:
    version: str
    bad: dict[str, Any]
    good: dict[str, Any]
    model: dict[str, Any] | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)
    gpu_count: int | None = None
    bad_secrets: tuple[str, ...] = ()
    good_secrets: tuple[str, ...] = ()


EAGLE = {"speculative_algorithm": "EAGLE"}
TREE = {**EAGLE, "speculative_num_steps": 3, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}
LINE = {**EAGLE, "speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}

UNO = {"speculative_algorithm": "UNO", "attention_backend": "fa3"}
UNO_WHOLE = {**UNO, "uno_lora_path": "/uno", "speculative_num_draft_tokens": 4}
DECODE_OFFLOAD = {"disaggregation_decode_enable_offload_kvcache": True, "disaggregation_mode": "decode"}
UNBUFFERED = {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}

EXAMPLES: dict[str, Example] = {
    # plain ranges
    "size_positive": Example(OLD, {"tp_size": 0}, {"tp_size": 1}),
    "attn_dp_positive": Example(NEW, {"attn_dp_size": 0}, {"attn_dp_size": 1}),
    "dcp_positive": Example(NEW, {"dcp_size": 0}, {"dcp_size": 1}),
    "port_range": Example(OLD, {"port": 65536}, {"port": 65535}),
    "grpc_port_range": Example(NEW, {"grpc_port": 0}, {"grpc_port": 40000}),
    "fraction_range": Example(OLD, {"mem_fraction_static": 1.0}, {"mem_fraction_static": 0.9}),
    "swa_ratio_range": Example(MID, {"swa_full_tokens_ratio": 0.0}, {"swa_full_tokens_ratio": 1.0}),
    "context_positive": Example(NEW, {"context_length": 0}, {"context_length": "64Ki"}),
    "page_size_positive": Example(OLD, {"page_size": 0}, {"page_size": 16}),
    "requests_positive": Example(OLD, {"max_running_requests": 0}, {"max_running_requests": 8}),
    "base_gpu_not_negative": Example(OLD, {"base_gpu_id": -1}, {"base_gpu_id": 0}),
    "gpu_step_positive": Example(OLD, {"gpu_id_step": 0}, {"gpu_id_step": 1}),
    "conservativeness_not_negative": Example(
        MID, {"schedule_conservativeness": -0.1}, {"schedule_conservativeness": 0.0}
    ),
    "tokenizer_workers_positive": Example(MID, {"tokenizer_worker_num": 0}, {"tokenizer_worker_num": 2}),
    "detokenizer_workers_positive": Example(NEW, {"detokenizer_worker_num": 0}, {"detokenizer_worker_num": 1}),
    "gc_threshold_length": Example(NEW, {"gc_threshold": [1, 2, 3, 4]}, {"gc_threshold": [700, 10, 10]}),
    "served_name_colon": Example(MID, {"served_model_name": "qwen:latest"}, {"served_model_name": "qwen-latest"}),
    # parallelism
    "nodes_divide_ranks": Example(
        OLD,
        {"tp_size": 3, "nnodes": 2, "dist_init_addr": "10.0.0.1:20000"},
        {"tp_size": 4, "nnodes": 2, "dist_init_addr": "10.0.0.1:20000"},
    ),
    "node_rank_range": Example(
        OLD,
        {"tp_size": 2, "nnodes": 2, "node_rank": 2, "dist_init_addr": "10.0.0.1:20000"},
        {"tp_size": 2, "nnodes": 2, "node_rank": 1, "dist_init_addr": "10.0.0.1:20000"},
    ),
    "nodes_need_address": Example(
        NEW, {"tp_size": 2, "nnodes": 2}, {"tp_size": 2, "nnodes": 2, "dist_init_addr": "10.0.0.1:20000"}
    ),
    "replicas_over_nodes": Example(
        MID,
        {"tp_size": 2, "nnodes": 2, "dp_size": 2, "dist_init_addr": "10.0.0.1:20000"},
        {"tp_size": 2, "nnodes": 2, "dp_size": 2, "dist_init_addr": "10.0.0.1:20000", "enable_dp_attention": True},
    ),
    "dp_and_attn_dp": Example(
        NEW, {"tp_size": 2, "dp_size": 2, "attn_dp_size": 2}, {"tp_size": 2, "dp_size": 1, "attn_dp_size": 2}
    ),
    "attn_dp_divides_tp": Example(
        MID,
        {"tp_size": 4, "dp_size": 3, "enable_dp_attention": True},
        {"tp_size": 4, "dp_size": 2, "enable_dp_attention": True},
    ),
    "attn_cp_divides_tp": Example(
        NEW,
        {"tp_size": 4, "attn_dp_size": 2, "attn_cp_size": 4},
        {"tp_size": 8, "attn_dp_size": 2, "attn_cp_size": 4},
    ),
    "dp_attention_alone": Example(
        MID, {"enable_dp_attention": True}, {"enable_dp_attention": True, "tp_size": 2, "dp_size": 2}
    ),
    "dp_lm_head_needs_dp_attention": Example(
        MID,
        {"tp_size": 2, "dp_size": 2, "enable_dp_lm_head": True},
        {"tp_size": 2, "dp_size": 2, "enable_dp_lm_head": True, "enable_dp_attention": True},
    ),
    "moe_dp_divides_tp": Example(MID, {"tp_size": 8, "moe_dp_size": 3}, {"tp_size": 8, "moe_dp_size": 2, "ep_size": 4}),
    "ep_moe_dp_within_tp": Example(
        MID, {"tp_size": 8, "moe_dp_size": 2, "ep_size": 8}, {"tp_size": 8, "moe_dp_size": 2, "ep_size": 4}
    ),
    "moe_dp_without_pp": Example(
        MID, {"tp_size": 2, "moe_dp_size": 2, "pp_size": 2}, {"tp_size": 2, "moe_dp_size": 2, "pp_size": 1}
    ),
    "cp_equals_moe_dp": Example(
        NEW,
        {"tp_size": 4, "attn_cp_size": 4, "moe_dp_size": 2},
        {"tp_size": 4, "attn_cp_size": 2, "moe_dp_size": 2},
    ),
    "ep_for_flashinfer_moe": Example(
        MID,
        {"tp_size": 8, "ep_size": 4, "moe_runner_backend": "flashinfer_cutlass"},
        {"tp_size": 8, "ep_size": 8, "moe_runner_backend": "flashinfer_cutlass"},
    ),
    "moe_dense_tp_one": Example(MID, {"tp_size": 8, "moe_dense_tp_size": 8}, {"tp_size": 8, "moe_dense_tp_size": 1}),
    "moe_dense_tp": Example(NEW, {"tp_size": 8, "moe_dense_tp_size": 4}, {"tp_size": 8, "moe_dense_tp_size": 8}),
    "cp_strategy_missing": Example(
        NEW, {"enable_prefill_cp": True}, {"enable_prefill_cp": True, "cp_strategy": "zigzag"}
    ),
    "dcp_without_prefill_cp": Example(
        NEW,
        {"dcp_size": 2, "enable_prefill_cp": True, "cp_strategy": "zigzag"},
        {"dcp_size": 1, "enable_prefill_cp": True, "cp_strategy": "zigzag"},
    ),
    "dcp_backend_needs_dcp": Example(NEW, {"dcp_comm_backend": "a2a"}, {"dcp_comm_backend": "a2a", "dcp_size": 2}),
    "dwdp_equals_tp": Example(NEW, {"tp_size": 4, "dwdp_size": 2}, {"tp_size": 4, "dwdp_size": 4}),
    "quant_communications_tp": Example(
        NEW,
        {"enable_quant_communications": True, "device": "npu"},
        {"enable_quant_communications": True, "device": "npu", "tp_size": 2},
    ),
    # pipeline parallelism
    "pp_speculation": Example(MID, {"pp_size": 2, **EAGLE}, {"pp_size": 1, **EAGLE}),
    "pp_speculation_prefill_only": Example(
        NEW, {"pp_size": 2, **EAGLE}, {"pp_size": 2, **EAGLE, "disaggregation_mode": "prefill"}
    ),
    "pp_mixed_chunk": Example(
        MID, {"pp_size": 2, "enable_mixed_chunk": True}, {"pp_size": 1, "enable_mixed_chunk": True}
    ),
    "pp_micro_batch": Example(NEW, {"pp_max_micro_batch_size": 0}, {"pp_max_micro_batch_size": 1}),
    "pp_free_slots_delay": Example(
        NEW, {"pp_size": 2, "min_free_slots_delay": 4}, {"pp_size": 1, "min_free_slots_delay": 4}
    ),
    # scheduling
    "chunk_multiple_of_page": Example(
        NEW,
        {"chunked_prefill_size": 1000, "page_size": 64},
        {"chunked_prefill_size": 1000, "page_size": 64, "disaggregation_mode": "decode"},
    ),
    "priority_policy": Example(
        MID,
        {"enable_priority_scheduling": True, "schedule_policy": "lpm"},
        {"enable_priority_scheduling": True, "schedule_policy": "lof"},
    ),
    "retraction_needs_priority": Example(
        NEW,
        {"retraction_policy": "priority"},
        {"retraction_policy": "priority", "enable_priority_scheduling": True},
    ),
    "mixed_chunk_speculation": Example(NEW, {"enable_mixed_chunk": True, **EAGLE}, {"enable_mixed_chunk": True}),
    "two_batch_overlap_backend": Example(
        MID,
        {"enable_two_batch_overlap": True},
        {"enable_two_batch_overlap": True, "moe_a2a_backend": "deepep"},
    ),
    "two_batch_overlap_attention": Example(
        NEW,
        {"enable_two_batch_overlap": True, "tp_size": 2},
        {"enable_two_batch_overlap": True, "tp_size": 2, "attn_dp_size": 2},
    ),
    "padding_with_compile": Example(
        NEW,
        {"disable_cuda_graph_padding": True, "enable_torch_compile": True},
        {"disable_cuda_graph_padding": True},
    ),
    "multi_item_scoring": Example(
        MID,
        {"multi_item_scoring_delimiter": 5},
        {"multi_item_scoring_delimiter": 5, "disable_radix_cache": True, "chunked_prefill_size": -1},
    ),
    # caches
    "hicache_needs_radix": Example(
        MID,
        {"enable_hierarchical_cache": True, "disable_radix_cache": True},
        {"enable_hierarchical_cache": True},
    ),
    "lmcache_or_hicache": Example(
        NEW, {"enable_lmcache": True, "enable_hierarchical_cache": True}, {"enable_lmcache": True}
    ),
    "lmcache_needs_radix": Example(
        NEW, {"enable_lmcache": True, "disable_radix_cache": True}, {"enable_lmcache": True}
    ),
    "lmcache_speculation": Example(NEW, {"enable_lmcache": True, **EAGLE}, EAGLE),
    "lmcache_dp_attention": Example(
        NEW, {"enable_lmcache": True, "tp_size": 2, "attn_dp_size": 2}, {"enable_lmcache": True, "tp_size": 2}
    ),
    "linker_needs_radix": Example(
        NEW,
        {"enable_unified_cache_external_linker": True, "disable_radix_cache": True},
        {"enable_unified_cache_external_linker": True},
    ),
    "linker_or_hicache": Example(
        NEW,
        {"enable_unified_cache_external_linker": True, "enable_hierarchical_cache": True},
        {"enable_hierarchical_cache": True},
    ),
    "linker_or_lmcache": Example(
        NEW,
        {"enable_unified_cache_external_linker": True, "enable_lmcache": True},
        {"enable_unified_cache_external_linker": True},
    ),
    "linker_without_storage": Example(
        NEW,
        {"enable_unified_cache_external_linker": True, "hicache_storage_backend": "file"},
        {"enable_unified_cache_external_linker": True},
    ),
    "hicache_buffer_storage": Example(
        NEW,
        {"enable_hierarchical_cache": True, "hicache_host_memory_mode": "buffer_only"},
        {
            "enable_hierarchical_cache": True,
            "hicache_host_memory_mode": "buffer_only",
            "hicache_storage_backend": "file",
        },
    ),
    "hicache_buffer_decode": Example(
        NEW,
        {
            "hicache_host_memory_mode": "buffer_only",
            "hicache_storage_backend": "file",
            "disaggregation_mode": "decode",
        },
        {
            "hicache_host_memory_mode": "buffer_only",
            "hicache_storage_backend": "file",
            "disaggregation_mode": "prefill",
        },
    ),
    "hicache_fraction_range": Example(
        NEW, {"hicache_host_memory_fraction": 1.5}, {"hicache_host_memory_fraction": 1.0}
    ),
    "decode_offload_side": Example(
        MID,
        {"disaggregation_decode_enable_offload_kvcache": True},
        {"disaggregation_decode_enable_offload_kvcache": True, "disaggregation_mode": "decode"},
    ),
    "decode_offload_storage": Example(NEW, DECODE_OFFLOAD, {**DECODE_OFFLOAD, "hicache_storage_backend": "file"}),
    "ple_offload_exclusive": Example(
        NEW, {"ple_offload_embedding": True, "cpu_offload_gb": 4}, {"ple_offload_embedding": True}
    ),
    # speculative decoding
    "speculation_details_alone": Example(NEW, {"speculative_num_steps": 3}, EAGLE),
    "speculation_all_three": Example(MID, {**EAGLE, "speculative_num_steps": 3}, LINE),
    "draft_tokens_corrected": Example(NEW, {**LINE, "speculative_num_draft_tokens": 9}, LINE),
    "topk_page_corrected": Example(OLD, {**TREE, "page_size": 16}, {**TREE, "page_size": 1}),
    "topk_page_backend": Example(
        MID,
        {**TREE, "page_size": 16, "attention_backend": "triton"},
        {**TREE, "page_size": 16, "attention_backend": "flashinfer"},
    ),
    "topk_page_backend_triton": Example(
        NEW,
        {**TREE, "page_size": 16, "attention_backend": "fa4"},
        {**TREE, "page_size": 16, "attention_backend": "triton"},
    ),
    "trtllm_mha_topk": Example(
        NEW,
        {**TREE, "decode_attention_backend": "trtllm_mha"},
        {**LINE, "decode_attention_backend": "trtllm_mha"},
    ),
    "rejection_sampling_topk": Example(
        NEW,
        {**TREE, "speculative_use_rejection_sampling": True},
        {**LINE, "speculative_use_rejection_sampling": True},
    ),
    "standalone_dp_attention": Example(
        MID,
        {"speculative_algorithm": "STANDALONE", "tp_size": 2, "dp_size": 2, "enable_dp_attention": True},
        {"speculative_algorithm": "STANDALONE", "tp_size": 2},
    ),
    "ngram_dp_attention": Example(
        NEW,
        {"speculative_algorithm": "NGRAM", "tp_size": 2, "attn_dp_size": 2},
        {"speculative_algorithm": "NGRAM", "tp_size": 2},
    ),
    "ngram_needs_gpu": Example(
        MID, {"speculative_algorithm": "NGRAM", "device": "cpu"}, {"speculative_algorithm": "NGRAM"}
    ),
    "ngram_corpus_budget": Example(
        NEW,
        {"speculative_algorithm": "NGRAM", "speculative_ngram_external_corpus_path": "/corpus"},
        {
            "speculative_algorithm": "NGRAM",
            "speculative_ngram_external_corpus_path": "/corpus",
            "speculative_ngram_external_sam_budget": 8,
        },
    ),
    "ngram_corpus_budget_limit": Example(
        NEW,
        {
            "speculative_algorithm": "NGRAM",
            "speculative_ngram_external_corpus_path": "/corpus",
            "speculative_ngram_external_sam_budget": 12,
        },
        {
            "speculative_algorithm": "NGRAM",
            "speculative_ngram_external_corpus_path": "/corpus",
            "speculative_ngram_external_sam_budget": 12,
            "speculative_num_draft_tokens": 16,
        },
    ),
    "dflash_needs_draft": Example(
        NEW,
        {"speculative_algorithm": "DFLASH"},
        {"speculative_algorithm": "DFLASH", "speculative_draft_model_path": "/draft"},
    ),
    "dflash_block_size": Example(
        NEW,
        {
            "speculative_algorithm": "DFLASH",
            "speculative_draft_model_path": "/draft",
            "speculative_dflash_block_size": 8,
            "speculative_num_draft_tokens": 16,
        },
        {
            "speculative_algorithm": "DFLASH",
            "speculative_draft_model_path": "/draft",
            "speculative_dflash_block_size": 8,
        },
    ),
    "dspark_block_size": Example(
        NEW,
        {
            "speculative_algorithm": "DSPARK",
            "speculative_dspark_block_size": 7,
            "speculative_num_draft_tokens": 7,
        },
        {
            "speculative_algorithm": "DSPARK",
            "speculative_dspark_block_size": 7,
            "speculative_num_draft_tokens": 8,
        },
    ),
    "uno_needs_lora": Example(NEW, {**UNO, "speculative_num_draft_tokens": 4}, UNO_WHOLE),
    "uno_needs_width": Example(NEW, {**UNO, "uno_lora_path": "/uno"}, UNO_WHOLE),
    "uno_single_gpu": Example(NEW, {**UNO_WHOLE, "tp_size": 2}, {**UNO_WHOLE, "tp_size": 1}),
    "uno_without_draft": Example(NEW, {**UNO_WHOLE, "speculative_draft_model_path": "/draft"}, UNO_WHOLE),
    "draft_sink_needs_window": Example(
        NEW,
        {**LINE, "speculative_draft_sink_size": 4},
        {**LINE, "speculative_draft_sink_size": 4, "speculative_draft_window_size": 512},
    ),
    "decode_radix_speculation": Example(
        V18,
        {**EAGLE, "disaggregation_mode": "decode", "disaggregation_decode_enable_radix_cache": True},
        {**EAGLE, "disaggregation_mode": "decode"},
    ),
    "decode_radix_speculation_kind": Example(
        NEW,
        {
            "speculative_algorithm": "NGRAM",
            "disaggregation_mode": "decode",
            "disaggregation_decode_enable_radix_cache": True,
        },
        {**EAGLE, "disaggregation_mode": "decode", "disaggregation_decode_enable_radix_cache": True},
    ),
    # linear attention
    "no_buffer_page_size": Example(NEW, {**UNBUFFERED, "page_size": 64}, {**UNBUFFERED, "page_size": 1}),
    "no_buffer_overlap": Example(NEW, {"mamba_radix_cache_strategy": "no_buffer"}, UNBUFFERED),
    "no_buffer_trtllm_mha": Example(
        NEW, {**UNBUFFERED, "attention_backend": "trtllm_mha"}, {**UNBUFFERED, "attention_backend": "triton"}
    ),
    "extra_buffer_track_draft": Example(
        NEW,
        {"mamba_radix_cache_strategy": "extra_buffer", **LINE, "mamba_track_interval": 2},
        {"mamba_radix_cache_strategy": "extra_buffer", **LINE, "mamba_track_interval": 4},
    ),
    "extra_buffer_track_page": Example(
        MID,
        {"mamba_scheduler_strategy": "extra_buffer", "mamba_track_interval": 100, "page_size": 64},
        {"mamba_scheduler_strategy": "extra_buffer", "mamba_track_interval": 128, "page_size": 64},
    ),
    "extra_buffer_lazy_disaggregation": Example(
        NEW,
        {"mamba_radix_cache_strategy": "extra_buffer_lazy", "disaggregation_mode": "prefill"},
        {"mamba_radix_cache_strategy": "extra_buffer", "disaggregation_mode": "prefill"},
    ),
    "extra_buffer_needs_radix": Example(
        "0.5.13",
        {"mamba_scheduler_strategy": "extra_buffer", "disable_radix_cache": True},
        {"mamba_scheduler_strategy": "no_buffer", "disable_radix_cache": True},
    ),
    "extra_buffer_needs_states": Example(
        NEW, {"mamba_radix_cache_strategy": "extra_buffer"}, {"mamba_radix_cache_strategy": "auto"}, model=QWEN
    ),
    "linear_speculation_no_buffer": Example(
        "0.5.12", EAGLE, {**EAGLE, "mamba_scheduler_strategy": "extra_buffer"}, model=GDN
    ),
    "replayssm_exclusive": Example(
        NEW,
        {**UNBUFFERED, "enable_linear_replayssm": True, "enable_linear_replayssm_spec": True},
        {**UNBUFFERED, "enable_linear_replayssm_spec": True},
    ),
    "replayssm_buffer": Example(
        NEW, {"enable_linear_replayssm": True}, {**UNBUFFERED, "enable_linear_replayssm": True}
    ),
    "replayssm_disaggregation": Example(
        NEW,
        {**UNBUFFERED, "enable_linear_replayssm": True, "disaggregation_mode": "decode"},
        {**UNBUFFERED, "enable_linear_replayssm": True},
    ),
    "replayssm_spec_topk": Example(
        NEW, {"enable_linear_replayssm_spec": True, **TREE}, {"enable_linear_replayssm_spec": True, **LINE}
    ),
    "replayssm_spec_prefill": Example(
        NEW,
        {"enable_linear_replayssm_spec": True, "disaggregation_mode": "prefill"},
        {"enable_linear_replayssm_spec": True, "disaggregation_mode": "decode"},
    ),
    "stochastic_rounding_state": Example(
        NEW,
        {"enable_mamba_cache_stochastic_rounding": True, "mamba_ssm_dtype": "bfloat16"},
        {"enable_mamba_cache_stochastic_rounding": True, "mamba_ssm_dtype": "float16"},
    ),
    "int8_checkpoint_hicache": Example(
        NEW,
        {"enable_int8_mamba_checkpoint": True, "enable_hierarchical_cache": True},
        {"enable_int8_mamba_checkpoint": True},
    ),
    # LoRA
    "lora_batch_positive": Example(OLD, {"max_loras_per_batch": 0}, {"max_loras_per_batch": 1}),
    "lora_needs_radix_off": Example(
        OLD, {"lora_paths": ["a=/a"]}, {"lora_paths": ["a=/a"], "disable_radix_cache": True}
    ),
    "lora_needs_shape": Example(
        MID,
        {"enable_lora": True},
        {"enable_lora": True, "max_lora_rank": 16, "lora_target_modules": ["all"]},
    ),
    "lora_loaded_below_batch": Example(
        MID,
        {"lora_paths": ["a=/a"], "max_loaded_loras": 4, "max_loras_per_batch": 8},
        {"lora_paths": ["a=/a"], "max_loaded_loras": 8, "max_loras_per_batch": 8},
    ),
    "lora_more_paths_than_loaded": Example(
        MID,
        {"lora_paths": ["a=/a", "b=/b", "c=/c"], "max_loaded_loras": 2, "max_loras_per_batch": 2},
        {"lora_paths": ["a=/a", "b=/b", "c=/c"], "max_loaded_loras": 3, "max_loras_per_batch": 2},
    ),
    "lora_all_alone": Example(
        MID,
        {"lora_paths": ["a=/a"], "lora_target_modules": ["all", "q_proj"]},
        {"lora_paths": ["a=/a"], "lora_target_modules": ["q_proj", "k_proj"]},
    ),
    "lora_overlap_loaded": Example(
        MID,
        {"lora_paths": ["a=/a"], "enable_lora_overlap_loading": True, "max_loaded_loras": 17},
        {"lora_paths": ["a=/a"], "enable_lora_overlap_loading": True, "max_loaded_loras": 16},
    ),
    # TLS and listeners
    "tls_key_without_certificate": Example(
        NEW, {"ssl_keyfile": "/k.pem"}, {"ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem"}
    ),
    "tls_certificate_without_key": Example(
        NEW, {"ssl_certfile": "/c.pem"}, {"ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem"}
    ),
    "tls_ca_alone": Example(
        NEW,
        {"ssl_ca_certs": "/ca.pem"},
        {"ssl_ca_certs": "/ca.pem", "ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem"},
    ),
    "tls_password_alone": Example(
        NEW,
        {},
        {"ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem"},
        bad_secrets=("ssl_keyfile_password",),
        good_secrets=("ssl_keyfile_password",),
    ),
    "tls_refresh_alone": Example(
        NEW,
        {"enable_ssl_refresh": True},
        {"enable_ssl_refresh": True, "ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem"},
    ),
    "tls_refresh_http2": Example(
        NEW,
        {"enable_ssl_refresh": True, "ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem", "enable_http2": True},
        {"ssl_keyfile": "/k.pem", "ssl_certfile": "/c.pem", "enable_http2": True},
    ),
    "grpc_port_differs": Example(NEW, {"port": 30000, "grpc_port": 30000}, {"port": 30000, "grpc_port": 30001}),
    "grpc_with_key": Example(NEW, {"grpc_port": 40000}, {"grpc_port": 40000}, bad_secrets=("api_key",)),
    "grpc_tokenizer_workers": Example(
        NEW, {"grpc_port": 40000, "tokenizer_worker_num": 2}, {"grpc_port": 40000, "tokenizer_worker_num": 1}
    ),
    "sidecar_needs_grpc": Example(NEW, {"sidecar": "router"}, {"sidecar": "router", "grpc_port": 40000}),
    "sidecar_args_alone": Example(
        NEW, {"sidecar_args": ["--x"]}, {"sidecar_args": ["--x"], "sidecar": "router", "grpc_port": 40000}
    ),
    "open_without_key": Example(NEW, {"host": "0.0.0.0"}, {"host": "0.0.0.0"}, good_secrets=("api_key",)),
    # disaggregation
    "encoder_or_language": Example(MID, {"encoder_only": True, "language_only": True}, {"encoder_only": True}),
    "encoder_disaggregation": Example(
        MID, {"encoder_only": True, "disaggregation_mode": "prefill"}, {"disaggregation_mode": "prefill"}
    ),
    "prefix_cache_needs_encoder": Example(
        MID, {"enable_prefix_mm_cache": True}, {"enable_prefix_mm_cache": True, "encoder_only": True}
    ),
    "prefill_fake_transfer": Example(
        NEW,
        {"disaggregation_mode": "prefill", "disaggregation_transfer_backend": "fake"},
        {"disaggregation_mode": "decode", "disaggregation_transfer_backend": "fake"},
    ),
    "decode_radix_fake": Example(
        NEW,
        {
            "disaggregation_mode": "decode",
            "disaggregation_decode_enable_radix_cache": True,
            "disaggregation_transfer_backend": "fake",
        },
        {
            "disaggregation_mode": "decode",
            "disaggregation_decode_enable_radix_cache": True,
            "disaggregation_transfer_backend": "nixl",
        },
    ),
    "retraction_backup_side": Example(
        NEW,
        {"disaggregation_decode_retraction_backup": "host_pool"},
        {"disaggregation_decode_retraction_backup": "host_pool", "disaggregation_mode": "decode"},
    ),
    "response_store_disaggregation": Example(
        NEW, {"enable_response_store": True, "disaggregation_mode": "decode"}, {"enable_response_store": True}
    ),
    "pdmux_pipeline": Example(
        MID,
        {"enable_pdmux": True, "pp_size": 2, "chunked_prefill_size": -1, "disable_overlap_schedule": True},
        {"enable_pdmux": True, "pp_size": 1, "chunked_prefill_size": -1, "disable_overlap_schedule": True},
    ),
    "pdmux_chunked_prefill": Example(
        NEW,
        {"enable_pdmux": True, "disable_overlap_schedule": True},
        {"enable_pdmux": True, "chunked_prefill_size": -1, "disable_overlap_schedule": True},
    ),
    "pdmux_disaggregation": Example(
        MID,
        {
            "enable_pdmux": True,
            "chunked_prefill_size": -1,
            "disable_overlap_schedule": True,
            "disaggregation_mode": "decode",
        },
        {"enable_pdmux": True, "chunked_prefill_size": -1, "disable_overlap_schedule": True},
    ),
    "pdmux_overlap": Example(
        MID,
        {"enable_pdmux": True, "chunked_prefill_size": -1},
        {"enable_pdmux": True, "chunked_prefill_size": -1, "disable_overlap_schedule": True},
    ),
    "role_switch": Example(
        NEW,
        {"enable_pd_role_switch": True, "disaggregation_mode": "decode", "tp_size": 2, "ep_size": 2},
        {"enable_pd_role_switch": True, "disaggregation_mode": "decode", "tp_size": 2},
    ),
    # metrics, debugging, watermark
    "metrics_labels_header": Example(
        MID,
        {"tokenizer_metrics_allowed_custom_labels": ["team"], "tokenizer_metrics_custom_labels_header": ""},
        {"tokenizer_metrics_allowed_custom_labels": ["team"]},
    ),
    "metrics_file_folder": Example(
        MID,
        {"export_metrics_to_file": True},
        {"export_metrics_to_file": True, "export_metrics_to_file_dir": "/metrics"},
    ),
    "canary_sweep": Example(
        NEW, {"kv_canary_sweep_interval": 10}, {"kv_canary_sweep_interval": 10, "kv_canary": "log"}
    ),
    "watermark_config_alone": Example(
        NEW, {"watermark_config": "/w.json"}, {"watermark_config": "/w.json", "enable_watermark": True}
    ),
    "watermark_logit_processor": Example(
        NEW, {"enable_watermark": True, "enable_custom_logit_processor": True}, {"enable_watermark": True}
    ),
    # attention backends
    "trtllm_mla_kv_dtype_fp4": Example(
        MID,
        {"attention_backend": "trtllm_mla", "kv_cache_dtype": "fp8_e5m2"},
        {"attention_backend": "trtllm_mla", "kv_cache_dtype": "fp4_e2m1"},
    ),
    "trtllm_mla_kv_dtype": Example(
        NEW,
        {"decode_attention_backend": "trtllm_mla", "kv_cache_dtype": "fp8_e5m2"},
        {"decode_attention_backend": "trtllm_mla", "kv_cache_dtype": "fp8_e4m3"},
    ),
    "fa3_kv_dtype": Example(
        MID,
        {"attention_backend": "fa3", "kv_cache_dtype": "fp8_e5m2"},
        {"attention_backend": "fa3", "kv_cache_dtype": "fp8_e4m3"},
    ),
    "fa3_capability": Example(
        NEW,
        {"attention_backend": "fa3"},
        {"attention_backend": "triton"},
        gpus=[{"index": 0, "name": "NVIDIA B200"}],
    ),
    "blackwell_backend": Example(
        NEW, {"attention_backend": "trtllm_mla"}, {"attention_backend": "flashinfer"}, gpus=[A6000]
    ),
    # the model
    "heads_by_tp": Example(NEW, {"tp_size": 3}, {"tp_size": 4}, model=QWEN),
    "kv_heads_by_tp": Example(NEW, {"tp_size": 5}, {"tp_size": 8}, model=QWEN),
    "layers_by_pp": Example(NEW, {"pp_size": 65}, {"pp_size": 64}, model=QWEN),
    "context_beyond_model": Example(NEW, {"context_length": "64k"}, {"context_length": 40960}, model=QWEN),
    "quantization_differs": Example(
        NEW,
        {"quantization": "fp8"},
        {"quantization": "awq"},
        model={**QWEN, "quantization_config": {"quant_method": "awq"}},
    ),
    # the host
    "gpus_too_few": Example(OLD, {"tp_size": 2, "pp_size": 2}, {"tp_size": 2}, gpu_count=2),
    "gpus_out_of_reach": Example(OLD, {"tp_size": 2, "base_gpu_id": 1}, {"tp_size": 2, "base_gpu_id": 0}, gpu_count=2),
    "gpus_idle": Example(NEW, {"tp_size": 1}, {"tp_size": 2}, gpus=[A6000, {**A6000, "index": 1}], gpu_count=2),
}
