# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The options of SGLang 0.5.18 (488). Written by script/options-table: change that, not this."""

from __future__ import annotations

VERSION = "0.5.18"
TABLE = r"""
--abort-on-priority-when-disabled {"type": "bool", "default": false, "action": "store_true"}
--admin-api-key
--allow-auto-truncate {"type": "bool", "default": false, "action": "store_true"}
--allowed-media-domains {"nargs": "+", "default": []}
--api-key
--asr-max-buffer-seconds {"type": "int", "default": 60}
--asr-max-concurrent-sessions {"type": "int", "default": 32}
--attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "dsv4", "compressed",
    "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla", "tokenspeed_mla",
    "trtllm_mha", "dual_chunk_flash_attn", "hpc_ops", "aiter", "wave", "intel_amx", "ascend", "intel_xpu"]}
--attn-cp-size {"aliases": ["--attention-context-parallel-size"], "type": "int", "default": 1}
--base-gpu-id {"type": "int", "default": 0}
--batch-notify-size {"type": "int", "default": 16}
--bf16-gemm-backend {"choices": ["auto", "cutedsl", "torch"], "default": "auto"}
--bucket-e2e-request-latency {"type": "float", "nargs": "+"}
--bucket-inter-token-latency {"type": "float", "nargs": "+"}
--bucket-time-to-first-token {"type": "float", "nargs": "+"}
--c128-page-size {"type": "int", "default": 16}
--chat-template
--checkpoint-engine-wait-weights-before-ready {"type": "bool", "default": false, "action": "store_true"}
--chunked-prefill-size {"type": "int"}
--collect-tokens-histogram {"action": "DeprecatedAction", "deprecated": true}
--completion-template
--config
--constrained-json-disable-any-whitespace {"type": "bool", "default": false, "action": "store_true"}
--constrained-json-whitespace-pattern
--context-length {"type": "human_readable_int"}
--cp-strategy {"choices": ["zigzag", "interleave"]}
--cpu-offload-gb {"type": "int", "default": 0}
--crash-dump-folder
--cuda-graph-backend-decode {"choices": ["full", "breakable", "tc_piecewise", "disabled"]}
--cuda-graph-backend-prefill {"choices": ["full", "breakable", "tc_piecewise", "disabled"]}
--cuda-graph-bs {"dest": "cuda_graph_bs_decode", "type": "int", "nargs": "+", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--cuda-graph-bs-decode"}
--cuda-graph-bs-decode {"type": "int", "nargs": "+"}
--cuda-graph-bs-prefill {"type": "int", "nargs": "+"}
--cuda-graph-config {"type": "parse_cuda_graph_config_arg"}
--cuda-graph-max-bs {"dest": "cuda_graph_max_bs_decode", "type": "int", "action": "DeprecatedAliasStoreAction",
    "deprecated": true, "replaced_by": "--cuda-graph-max-bs-decode"}
--cuda-graph-max-bs-decode {"type": "int"}
--cuda-graph-max-bs-prefill {"type": "int"}
--cuda-graph-tc-compiler {"choices": ["eager", "inductor"]}
--custom-weight-loader {"nargs": "*"}
--dcp-comm-backend {"choices": ["ag_rs", "a2a", "fi_a2a"], "default": "ag_rs"}
--dcp-replicate-q-proj {"aliases": ["--no-dcp-replicate-q-proj"], "type": "bool", "action": "BooleanOptionalAction"}
--dcp-size {"aliases": ["--decode-context-parallel-size"], "type": "int", "default": 1}
--debug-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--debug-tensor-dump-input-file
--debug-tensor-dump-layers {"type": "int", "nargs": "+"}
--debug-tensor-dump-output-folder
--decode-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "dsv4",
    "compressed", "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla",
    "tokenspeed_mla", "trtllm_mha", "dual_chunk_flash_attn", "hpc_ops", "aiter", "wave", "intel_amx", "ascend",
    "intel_xpu"]}
--decode-log-interval {"type": "int", "default": 40}
--decoupled-spec-bind-endpoint
--decoupled-spec-connect-endpoints {"type": "json_list_type"}
--decoupled-spec-rank {"type": "int"}
--decoupled-spec-role {"choices": ["null", "verifier", "drafter"], "default": "null"}
--decrypted-config-file
--decrypted-draft-config-file
--deepep-config
--deepep-dispatcher-output-dtype {"choices": ["auto", "bf16", "fp8", "int8", "nvfp4"], "default": "auto"}
--deepep-mode {"choices": ["auto", "normal", "low_latency"], "default": "auto"}
--default-chat-template-kwargs {"type": "json.loads"}
--default-priority-value {"type": "int"}
--delete-ckpt-after-loading {"type": "bool", "default": false, "action": "store_true"}
--detokenizer-worker-num {"type": "int", "default": 1}
--device
--disable-attn-tp-gather {"type": "bool", "default": false, "action": "store_true"}
--disable-chunked-prefix-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-cuda-graph {"type": "bool", "default": false, "action": "DeprecatedStoreTrueAction", "deprecated": true,
    "replaced_by": "--cuda-graph-backend-{decode,prefill}=disabled"}
--disable-cuda-graph-padding {"type": "bool", "default": false, "action": "store_true"}
--disable-custom-all-reduce {"type": "bool", "default": false, "action": "store_true"}
--disable-decode-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--disable-fast-image-processor {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--disable-flashinfer-autotune {"type": "bool", "default": false, "action": "store_true"}
--disable-flashinfer-cutlass-moe-fp4-allgather {"type": "bool", "default": false, "action": "store_true"}
--disable-hybrid-swa-memory {"type": "bool", "default": false, "action": "store_true"}
--disable-outlines-disk-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-overlap-schedule {"type": "bool", "default": false, "action": "store_true"}
--disable-piecewise-cuda-graph {"dest": "cuda_graph_backend_prefill", "action": "DeprecatedStoreConstAction",
    "deprecated": true, "replaced_by": "--cuda-graph-backend-prefill=disabled"}
--disable-prefill-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--disable-priority-preemption {"type": "bool", "default": false, "action": "store_true"}
--disable-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-shared-experts-fusion {"type": "bool", "default": false, "action": "store_true"}
--disable-tokenizer-batch-decode {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-bootstrap-port {"type": "int", "default": 8998}
--disaggregation-decode-enable-offload-kvcache {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-decode-enable-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-decode-extra-slots {"type": "int"}
--disaggregation-decode-polling-interval {"type": "int", "default": 1}
--disaggregation-decode-retraction-backup {"choices": ["cpu_tensor", "host_pool"]}
--disaggregation-ib-device
--disaggregation-mode {"choices": ["null", "prefill", "decode"], "default": "null"}
--disaggregation-transfer-backend {"choices": ["mooncake", "nixl", "ascend", "fake", "mori", "mooncake_tcp"],
    "default": "mooncake"}
--dist-init-addr {"aliases": ["--nccl-init-addr"]}
--dist-timeout {"type": "int"}
--dllm-algorithm
--dllm-algorithm-config
--dllm-fdfo {"aliases": ["--no-dllm-fdfo"], "type": "bool", "default": true, "action": "BooleanOptionalAction"}
--download-dir
--dp-size {"aliases": ["--data-parallel-size"], "type": "int", "default": 1}
--dsa-decode-backend {"choices": ["flashmla_sparse", "flashmla_sparse_q8", "flashmla_kv", "flashmla_auto",
    "flashinfer_sparse_mla", "fa3", "tilelang", "aiter", "trtllm"]}
--dsa-paged-mqa-logits-backend {"choices": ["auto", "deepgemm", "cutedsl", "aiter"], "default": "auto"}
--dsa-prefill-backend {"choices": ["flashmla_sparse", "flashmla_sparse_q8", "flashmla_kv", "flashmla_auto",
    "flashinfer_sparse_mla", "fa3", "tilelang", "aiter", "trtllm"]}
--dsa-prefill-cp-mode {"choices": ["in-seq-split", "round-robin-split"], "default": "round-robin-split", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--cp-strategy"}
--dsa-topk-backend {"choices": ["sgl-kernel", "torch", "flashinfer"], "default": "sgl-kernel"}
--dtype {"choices": ["auto", "half", "float16", "bfloat16", "float", "float32"], "default": "auto"}
--dwdp-size {"type": "int", "default": 1}
--dynamic-batch-tokenizer-batch-size {"type": "int", "default": 32}
--dynamic-batch-tokenizer-batch-timeout {"type": "float", "default": 0.002}
--elastic-ep-backend {"choices": ["none", "mooncake", "nixl"]}
--elastic-ep-initial-size {"type": "int"}
--elastic-ep-join-mode {"dest": "ep_join_mode", "choices": ["scale", "recover"]}
--elastic-ep-join-rank-offset {"dest": "ep_join_rank_offset", "type": "int", "default": 0}
--elastic-ep-rejoin {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--elastic-ep-scale-timeout {"type": "float", "default": 600}
--enable-adaptive-dispatch-to-encoder {"type": "bool", "default": false, "action": "store_true"}
--enable-aiter-allreduce-fusion {"type": "bool", "default": false, "action": "store_true"}
--enable-attn-tp-input-scattered {"type": "bool", "default": false, "action": "store_true"}
--enable-breakable-cuda-graph {"dest": "cuda_graph_backend_prefill", "action": "DeprecatedStoreConstAction",
    "deprecated": true, "replaced_by": "--cuda-graph-backend-prefill=breakable"}
--enable-broadcast-mm-inputs-process {"type": "bool", "default": false, "action": "store_true"}
--enable-cache-report {"type": "bool", "default": false, "action": "store_true"}
--enable-cp-decode-attn-tp {"type": "bool", "default": false, "action": "store_true"}
--enable-cudagraph-gc {"type": "bool", "default": false, "action": "store_true"}
--enable-custom-logit-processor {"type": "bool", "default": false, "action": "store_true"}
--enable-deepseek-v4-fp4-indexer {"type": "bool", "default": false, "action": "store_true"}
--enable-deterministic-inference {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-attention {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-attention-local-control-broadcast {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-draft-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--enable-dsa-cache-layer-split {"type": "bool", "default": false, "action": "store_true"}
--enable-dsa-prefill-context-parallel {"type": "bool", "default": false, "action": "DeprecatedStoreTrueAction",
    "deprecated": true, "replaced_by": "--enable-prefill-cp"}
--enable-dynamic-batch-tokenizer {"type": "bool", "default": false, "action": "store_true"}
--enable-dynamic-chunking {"type": "bool", "default": false, "action": "store_true"}
--enable-elastic-expert-backup {"type": "bool", "default": false, "action": "store_true"}
--enable-eplb {"type": "bool", "default": false, "action": "store_true"}
--enable-expert-distribution-metrics {"action": "DeprecatedAction", "deprecated": true, "removed": true}
--enable-flashinfer-allreduce-fusion {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--enable-flexkv {"type": "bool", "default": false, "action": "store_true"}
--enable-forward-pass-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-fp32-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-fused-moe-sum-all-reduce {"type": "bool", "default": false, "action": "store_true"}
--enable-fused-qk-norm-rope {"type": "bool", "default": false, "action": "store_true"}
--enable-gdn-replayssm-spec {"dest": "enable_linear_replayssm_spec", "type": "bool", "default": false, "action":
    "DeprecatedStoreTrueAction", "deprecated": true, "replaced_by": "--enable-linear-replayssm-spec"}
--enable-hierarchical-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-hisparse {"type": "bool", "default": false, "action": "store_true"}
--enable-http2 {"type": "bool", "default": false, "action": "store_true"}
--enable-int8-mamba-checkpoint {"type": "bool", "default": false, "action": "store_true"}
--enable-layerwise-nvtx-marker {"type": "bool", "default": false, "action": "store_true"}
--enable-linear-replayssm {"type": "bool", "default": false, "action": "store_true"}
--enable-linear-replayssm-spec {"type": "bool", "default": false, "action": "store_true"}
--enable-lmcache {"type": "bool", "default": false, "action": "store_true"}
--enable-lora {"type": "bool", "action": "store_true"}
--enable-lora-overlap-loading {"type": "bool", "action": "store_true"}
--enable-mamba-cache-stochastic-rounding {"type": "bool", "default": false, "action": "store_true"}
--enable-memory-saver {"type": "bool", "default": false, "action": "store_true"}
--enable-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-metrics-for-all-schedulers {"type": "bool", "default": false, "action": "store_true"}
--enable-mfu-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-mis {"type": "bool", "default": false, "action": "store_true"}
--enable-mixed-chunk {"type": "bool", "default": false, "action": "store_true"}
--enable-mm-global-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-mscclpp {"type": "bool", "default": false, "action": "store_true"}
--enable-multi-layer-eagle {"type": "bool", "default": false, "action": "store_true"}
--enable-multimodal {"type": "bool", "action": "store_true"}
--enable-nccl-nvls {"type": "bool", "default": false, "action": "store_true"}
--enable-nsa-prefill-context-parallel {"dest": "enable_dsa_prefill_context_parallel", "type": "bool", "default":
    false, "action": "DeprecatedStoreTrueAction", "deprecated": true, "replaced_by": "--enable-prefill-cp"}
--enable-p2p-check {"type": "bool", "default": false, "action": "store_true"}
--enable-page-major-kv-layout {"type": "bool", "default": false, "action": "store_true"}
--enable-pdmux {"type": "bool", "default": false, "action": "store_true"}
--enable-precise-embedding-interpolation {"type": "bool", "default": false, "action": "store_true"}
--enable-prefill-context-parallel {"type": "bool", "default": false, "action": "DeprecatedStoreTrueAction",
    "deprecated": true, "replaced_by": "--enable-prefill-cp"}
--enable-prefill-cp {"type": "bool", "default": false, "action": "store_true"}
--enable-prefill-delayer {"type": "bool", "default": false, "action": "store_true"}
--enable-prefix-mm-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-priority-scheduling {"type": "bool", "default": false, "action": "store_true"}
--enable-profile-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--enable-quant-communications {"type": "bool", "default": false, "action": "store_true"}
--enable-request-time-stats-logging {"type": "bool", "default": false, "action": "store_true"}
--enable-return-hidden-states {"type": "bool", "default": false, "action": "store_true"}
--enable-return-indexer-topk {"type": "bool", "default": false, "action": "store_true"}
--enable-return-routed-experts {"type": "bool", "default": false, "action": "store_true"}
--enable-scattered-sconv {"type": "bool", "default": false, "action": "store_true"}
--enable-session-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-single-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-ssl-refresh {"type": "bool", "default": false, "action": "store_true"}
--enable-streaming-session {"type": "bool", "default": false, "action": "store_true"}
--enable-strict-thinking {"type": "bool", "default": false, "action": "store_true"}
--enable-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-tf32-matmul {"type": "bool", "default": false, "action": "store_true"}
--enable-tokenizer-batch-encode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile-debug-mode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-tp-lm-head-all-to-all {"aliases": ["--no-enable-tp-lm-head-all-to-all"], "type": "bool", "action":
    "BooleanOptionalAction"}
--enable-trace {"type": "bool", "default": false, "action": "store_true"}
--enable-two-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-unified-memory {"type": "bool", "default": false, "action": "store_true"}
--enable-waterfill {"type": "bool", "default": false, "action": "store_true"}
--enable-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--encoder-bootstrap-port {"type": "int", "default": 8997}
--encoder-only {"type": "bool", "default": false, "action": "store_true"}
--encoder-register-urls {"nargs": "+", "default": []}
--encoder-transfer-backend {"choices": ["auto", "zmq_to_scheduler", "zmq_to_tokenizer", "mooncake"], "default":
    "auto"}
--encoder-urls {"nargs": "+", "default": []}
--enforce-disable-flashinfer-allreduce-fusion {"type": "bool", "default": false, "action": "store_true"}
--enforce-piecewise-cuda-graph {"dest": "cuda_graph_backend_prefill", "action": "DeprecatedStoreConstAction",
    "deprecated": true, "replaced_by": "--cuda-graph-backend-prefill=tc_piecewise"}
--enforce-shared-experts-fusion {"type": "bool", "default": false, "action": "store_true"}
--engine-info-bootstrap-port {"type": "int", "default": 6789}
--ep-dispatch-algorithm {"choices": ["static", "dynamic", "fake", "lp"]}
--ep-num-redundant-experts {"type": "int", "default": 0}
--ep-size {"aliases": ["--expert-parallel-size", "--ep"], "type": "int", "default": 1}
--eplb-algorithm {"default": "auto"}
--eplb-min-rebalancing-utilization-threshold {"type": "float", "default": 1.0}
--eplb-rebalance-layers-per-chunk {"type": "int"}
--eplb-rebalance-num-iterations {"type": "int", "default": 1000}
--expert-balancedness-report-mode {"choices": ["off", "server_log", "prometheus", "both"], "default": "off"}
--expert-distribution-recorder-buffer-size {"type": "int"}
--expert-distribution-recorder-mode {"choices": ["stat", "stat_approx", "per_pass", "per_token"]}
--experts-shared-outer-loras {"aliases": ["--no-experts-shared-outer-loras"], "type": "bool", "action":
    "BooleanOptionalAction"}
--export-metrics-to-file {"type": "bool", "default": false, "action": "store_true"}
--export-metrics-to-file-dir
--extra-metric-labels {"type": "json.loads"}
--fastapi-root-path {"default": ""}
--file-storage-path {"default": "sglang_storage"}
--flashinfer-allreduce-fusion-backend {"choices": ["auto", "trtllm", "mnnvl"]}
--flashinfer-autotune-skip-ops {"nargs": "+"}
--flashinfer-mla-disable-ragged {"type": "bool", "default": false, "action": "store_true"}
--flashinfer-mxfp4-moe-precision {"choices": ["default", "bf16"], "default": "default"}
--flexkv-config-file
--forward-hooks {"type": "json_list_type"}
--forward-pass-metrics-ipc-name
--forward-pass-metrics-worker-id {"default": ""}
--fp4-gemm-backend {"dest": "fp4_gemm_runner_backend", "choices": ["auto", "flashinfer_cudnn", "flashinfer_cutedsl",
    "flashinfer_cutlass", "flashinfer_trtllm", "marlin"], "default": "auto"}
--fp8-gemm-backend {"dest": "fp8_gemm_runner_backend", "choices": ["auto", "deep_gemm", "flashinfer_trtllm",
    "flashinfer_cutlass", "flashinfer_deepgemm", "flashinfer_cutedsl", "cutlass", "triton", "aiter"], "default":
    "auto"}
--fuseep-mode {"type": "int", "choices": [1, 2], "default": 2}
--gc-threshold {"type": "int", "nargs": "+"}
--gc-warning-threshold-secs {"type": "float", "default": 0.0}
--generation-tokens-buckets {"nargs": "+"}
--gpu-id-step {"type": "int", "default": 1}
--grammar-backend {"choices": ["xgrammar", "outlines", "llguidance", "none"]}
--grpc-mode {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--grpc-port {"type": "int"}
--hf-chat-template-name
--hicache-io-backend {"choices": ["direct", "kernel", "kernel_ascend"], "default": "kernel"}
--hicache-mem-layout {"choices": ["layer_first", "page_first", "page_first_direct", "page_first_kv_split",
    "page_head"], "default": "page_first"}
--hicache-ratio {"type": "float"}
--hicache-size {"type": "int", "default": 0}
--hicache-storage-backend {"choices": ["file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm",
    "mori", "shm"]}
--hicache-storage-backend-extra-config
--hicache-storage-prefetch-policy {"choices": ["best_effort", "wait_complete", "timeout"], "default": "timeout"}
--hicache-write-policy {"choices": ["write_back", "write_through", "write_through_selective"], "default":
    "write_through"}
--hisparse-config {"aliases": ["--hierarchical-sparse-attention-extra-config"]}
--host {"default": "127.0.0.1"}
--http2-max-concurrent-streams {"type": "int", "default": 200}
--image-processor-backend {"choices": ["auto", "torchvision", "pil"], "default": "auto"}
--incremental-streaming-output {"type": "bool", "default": false, "action": "store_true"}
--init-expert-location {"default": "trivial"}
--int8-mamba-ckpt-size {"type": "int"}
--is-embedding {"type": "bool", "default": false, "action": "store_true"}
--json-model-override-args {"default": "{}"}
--keep-mm-feature-on-device {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--kt-cpuinfer {"type": "int"}
--kt-max-deferred-experts-per-token {"type": "int"}
--kt-method {"default": "AMXINT4"}
--kt-num-gpu-experts {"type": "int"}
--kt-threadpool-count {"type": "int", "default": 2}
--kt-weight-path
--kv-cache-dtype {"choices": ["auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4",
    "fp4_mx_block16", "fp4_e2m1"], "default": "auto"}
--kv-canary {"choices": ["none", "log", "raise"], "default": "none"}
--kv-canary-real-data {"choices": ["none", "partial", "all"], "default": "none"}
--kv-canary-sweep-interval {"type": "int", "default": 0}
--kv-events-config
--language-model-only {"type": "bool", "default": false, "action": "store_true"}
--language-only {"type": "bool", "default": false, "action": "store_true"}
--limit-mm-data-per-request {"type": "json.loads"}
--linear-attn-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion"], "default": "triton"}
--linear-attn-decode-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion"]}
--linear-attn-prefill-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion"]}
--linear-attn-verify-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion", "nv_cutedsl"]}
--linear-replayssm-cache-len {"type": "int", "default": 16}
--lmcache-config-file
--load-balance-method {"choices": ["auto", "round_robin", "follow_bootstrap_room", "total_requests",
    "total_tokens"], "default": "auto"}
--load-format {"choices": ["auto", "pt", "safetensors", "npcache", "dummy", "sharded_state", "presharded", "gguf",
    "bitsandbytes", "mistral", "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors", "private",
    "runai_streamer"], "default": "auto"}
--load-snapshot-publish-interval {"type": "int", "default": 15}
--log-level {"default": "info"}
--log-level-http
--log-requests {"type": "bool", "default": false, "action": "store_true"}
--log-requests-format {"choices": ["text", "json"], "default": "text"}
--log-requests-level {"type": "int", "choices": [0, 1, 2, 3], "default": 2}
--log-requests-target {"nargs": "+"}
--lora-backend {"choices": ["triton", "csgmv", "ascend", "torch_native"], "default": "csgmv"}
--lora-drain-wait-threshold {"type": "float", "default": 0.0}
--lora-eviction-policy {"choices": ["lru", "fifo"], "default": "lru"}
--lora-paths {"nargs": "*", "action": "LoRAPathAction"}
--lora-strict-loading {"aliases": ["--no-lora-strict-loading"], "type": "bool", "default": false, "action":
    "BooleanOptionalAction"}
--lora-target-modules {"nargs": "*", "choices": ["q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj",
    "kv_a_proj_with_mqa", "q_b_proj", "kv_b_proj", "wq_b", "wk", "weights_proj", "gate_proj", "up_proj",
    "down_proj", "qkv_proj", "gate_up_proj", "embed_tokens", "lm_head", "qkvr", "wo_ud", "all"]}
--lora-use-virtual-experts {"type": "bool", "default": false, "action": "store_true"}
--mamba-backend {"choices": ["triton", "flashinfer"], "default": "triton"}
--mamba-cache-philox-rounds {"type": "int", "default": 0}
--mamba-full-memory-ratio {"type": "float", "default": 0.9}
--mamba-max-states-per-path {"type": "int", "default": -1}
--mamba-radix-cache-strategy {"choices": ["auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"], "default":
    "auto"}
--mamba-scheduler-strategy {"dest": "mamba_radix_cache_strategy", "default": "auto", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--mamba-radix-cache-strategy"}
--mamba-ssm-dtype {"choices": ["float32", "bfloat16", "float16"]}
--mamba-track-interval {"type": "int", "default": 256}
--max-ep-size {"type": "int"}
--max-loaded-loras {"type": "int"}
--max-lora-chunk-size {"type": "int", "choices": [16, 32, 64, 128], "default": 16}
--max-lora-rank {"type": "int"}
--max-loras-per-batch {"type": "int", "default": 8}
--max-mamba-cache-size {"type": "int"}
--max-prefill-tokens {"type": "human_readable_int", "default": 16384}
--max-queued-requests {"type": "int"}
--max-running-requests {"type": "int"}
--max-total-tokens {"type": "human_readable_int"}
--media-url-max-file-size-mb {"type": "int", "default": 64}
--mem-fraction-static {"type": "float"}
--min-free-slots-delay {"type": "int"}
--mlx-enable-sampling {"type": "bool", "default": false, "action": "store_true"}
--mm-attention-backend {"choices": ["sdpa", "fa3", "fa4", "triton_attn", "ascend_attn", "aiter_attn",
    "flashinfer_cudnn", "amx_attn", "xpu_attn"]}
--mm-enable-dp-encoder {"type": "bool", "default": false, "action": "store_true"}
--mm-feature-transport {"choices": ["cpu", "cuda_ipc", "cuda_vmm"]}
--mm-global-cache-backend {"choices": ["mooncake"], "default": "mooncake"}
--mm-io-worker-num {"type": "int", "default": 0}
--mm-preprocess-cache-size-mb {"type": "int"}
--mm-process-config {"type": "json.loads"}
--mm-processor-worker-num {"type": "int", "default": 0}
--model-checksum {"nargs": "?", "const": ""}
--model-config-parser {"default": "auto"}
--model-impl {"default": "auto"}
--model-loader-extra-config {"default": "{}"}
--model-path {"aliases": ["--model"], "required": true}
--modelexpress-config
--modelopt-checkpoint-restore-path
--modelopt-checkpoint-save-path
--modelopt-export-path
--modelopt-quant
--moe-a2a-backend {"choices": ["none", "deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer",
    "megamoe", "pplx", "ascend_tp"], "default": "none"}
--moe-dense-tp-size {"type": "int"}
--moe-dp-size {"aliases": ["--moe-data-parallel-size"], "type": "int", "default": 1}
--moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "experimental_sgl_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_mxfp4",
    "flashinfer_cutedsl", "cutlass", "aiter", "marlin", "humming", "experimental_sgl_marlin", "hpc_ops", "megamoe"],
    "default": "auto"}
--mooncake-ib-device
--msprobe-dump-config
--nccl-port {"type": "int"}
--nnodes {"type": "int", "default": 1}
--node-rank {"type": "int", "default": 0}
--nsa-decode-backend {"dest": "dsa_decode_backend", "choices": ["flashmla_sparse", "flashmla_sparse_q8",
    "flashmla_kv", "flashmla_auto", "flashinfer_sparse_mla", "fa3", "tilelang", "aiter", "trtllm"], "default_known":
    false, "action": "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--dsa-decode-backend"}
--nsa-prefill-backend {"dest": "dsa_prefill_backend", "choices": ["flashmla_sparse", "flashmla_sparse_q8",
    "flashmla_kv", "flashmla_auto", "flashinfer_sparse_mla", "fa3", "tilelang", "aiter", "trtllm"], "default_known":
    false, "action": "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--dsa-prefill-backend"}
--nsa-prefill-cp-mode {"dest": "dsa_prefill_cp_mode", "choices": ["in-seq-split", "round-robin-split"],
    "default_known": false, "action": "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by":
    "--cp-strategy"}
--num-continuous-decode-steps {"type": "int", "default": 1}
--num-reserved-decode-tokens {"type": "int", "default": 512}
--numa-node {"type": "int", "nargs": "+"}
--offload-group-size {"type": "int", "default": -1}
--offload-mode {"default": "cpu"}
--offload-num-in-group {"type": "int", "default": 1}
--offload-prefetch-step {"type": "int", "default": 1}
--optimistic-prefill-attempts {"type": "int", "default": 0}
--otlp-traces-endpoint {"default": "localhost:4317"}
--page-size {"type": "int"}
--pdmux-config-path
--piecewise-cuda-graph-compiler {"dest": "cuda_graph_tc_compiler", "choices": ["eager", "inductor"], "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--cuda-graph-tc-compiler"}
--piecewise-cuda-graph-max-tokens {"dest": "cuda_graph_max_bs_prefill", "type": "int", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--cuda-graph-max-bs-prefill"}
--piecewise-cuda-graph-tokens {"dest": "cuda_graph_bs_prefill", "type": "int", "nargs": "+", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--cuda-graph-bs-prefill"}
--port {"type": "int", "default": 30000}
--pp-async-batch-depth {"type": "int", "default": 0}
--pp-max-micro-batch-size {"type": "int"}
--pp-size {"aliases": ["--pipeline-parallel-size"], "type": "int", "default": 1}
--pre-warm-nccl {"type": "bool", "default": false, "action": "store_true"}
--preferred-sampling-params {"type": "json.loads"}
--prefill-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "dsv4",
    "compressed", "cutlass_mla", "fa3", "fa4", "flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla",
    "tokenspeed_mla", "trtllm_mha", "dual_chunk_flash_attn", "hpc_ops", "aiter", "wave", "intel_amx", "ascend",
    "intel_xpu"]}
--prefill-cp-mode {"choices": ["in-seq-split"], "default": "in-seq-split", "action": "DeprecatedAliasStoreAction",
    "deprecated": true, "replaced_by": "--cp-strategy"}
--prefill-delayer-forward-passes-buckets {"type": "float", "nargs": "+"}
--prefill-delayer-max-delay-ms {"type": "float"}
--prefill-delayer-max-delay-passes {"type": "int", "default": 30}
--prefill-delayer-queue-min-ratio {"type": "float"}
--prefill-delayer-token-usage-low-watermark {"type": "float"}
--prefill-delayer-wait-seconds-buckets {"type": "float", "nargs": "+"}
--prefill-max-requests {"type": "int"}
--prefill-only-disable-kv-cache {"type": "bool", "default": false, "action": "store_true"}
--prefill-round-robin-balance {"action": "DeprecatedAction", "deprecated": true}
--priority-scheduling-preemption-threshold {"type": "int", "default": 10}
--prompt-tokens-buckets {"nargs": "+"}
--quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin", "awq_marlin", "bitsandbytes",
    "gguf", "modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed", "petit_nvfp4",
    "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4", "auto-round", "auto-round-int8", "compressed-tensors",
    "modelslim", "mxfp_w4a8", "quark", "quark_int4fp8_moe", "quark_mxfp4", "mlx_q4", "mlx_q8", "unquant",
    "humming"]}
--quantization-param-path {"type": "nullable_str"}
--quantize-and-serve {"type": "bool", "default": false, "action": "store_true"}
--radix-cache-backend
--radix-eviction-policy {"choices": ["lru", "lfu", "slru", "priority"], "default": "lru"}
--random-seed {"type": "int"}
--reasoning-parser {"choices": ["auto", "apertus2509", "deepseek-r1", "deepseek-v3", "deepseek-v4", "glm45",
    "hunyuan", "gpt-oss", "kimi", "kimi_k2", "kimi_k3", "mimo", "muse", "poolside_v1", "qwen3", "qwen3-thinking",
    "minimax", "minimax-append-think", "minimax-m3", "step3", "step3p5", "mistral", "nemotron_3", "interns1",
    "gemma4", "inkling", "cohere_command4"]}
--remote-instance-weight-loader-backend {"choices": ["transfer_engine", "nccl", "modelexpress"], "default": "nccl"}
--remote-instance-weight-loader-seed-instance-ip
--remote-instance-weight-loader-seed-instance-service-port {"type": "int"}
--remote-instance-weight-loader-send-weights-group-ports {"type": "json_list_type"}
--remote-instance-weight-loader-start-seed-via-transfer-engine {"type": "bool", "default": false, "action":
    "store_true"}
--retraction-policy {"choices": ["length", "priority"], "default": "length"}
--return-hidden-states-mode {"choices": ["last", "full"]}
--revision
--rl-on-policy-target {"choices": ["fsdp"]}
--rl-quant-profile
--sampling-backend {"choices": ["ascend", "flashinfer", "pytorch"]}
--sampling-defaults {"choices": ["openai", "model"], "default": "model"}
--schedule-conservativeness {"type": "float", "default": 1.0}
--schedule-low-priority-values-first {"type": "bool", "default": false, "action": "store_true"}
--schedule-policy {"choices": ["lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key"], "default":
    "fcfs"}
--scheduler-recv-interval {"type": "int", "default": 1}
--served-model-name
--show-time-cost {"type": "bool", "default": false, "action": "store_true"}
--sidecar
--sidecar-args {"type": "json_list_type"}
--skip-server-warmup {"type": "bool", "default": false, "action": "store_true"}
--skip-tokenizer-init {"type": "bool", "default": false, "action": "store_true"}
--sleep-on-idle {"type": "bool", "default": false, "action": "store_true"}
--sm-group-num {"type": "int", "default": 8}
--smg-grpc-mode {"type": "bool", "default": false, "action": "store_true"}
--smg-http-sidecar-port {"aliases": ["--grpc-http-sidecar-port"], "type": "int"}
--soft-watchdog-timeout {"type": "float"}
--spec-trace-dir
--speculative-accept-threshold-acc {"type": "float", "default": 1.0}
--speculative-accept-threshold-single {"type": "float", "default": 1.0}
--speculative-adaptive {"type": "bool", "default": false, "action": "store_true"}
--speculative-adaptive-config
--speculative-algorithm
--speculative-attention-mode {"choices": ["prefill", "decode"], "default": "prefill"}
--speculative-dflash-block-size {"type": "int"}
--speculative-dflash-draft-window-size {"dest": "speculative_draft_window_size", "type": "int", "action":
    "DeprecatedAliasStoreAction", "deprecated": true, "replaced_by": "--speculative-draft-window-size"}
--speculative-draft-attention-backend
--speculative-draft-kv-cache-dtype {"choices": ["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"]}
--speculative-draft-load-format {"choices": ["auto", "pt", "safetensors", "npcache", "dummy", "sharded_state",
    "presharded", "gguf", "bitsandbytes", "mistral", "layered", "flash_rl", "remote", "remote_instance",
    "fastsafetensors", "private", "runai_streamer"]}
--speculative-draft-model-path {"aliases": ["--speculative-draft-model"]}
--speculative-draft-model-quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin",
    "awq_marlin", "bitsandbytes", "gguf", "modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online",
    "modelopt_mixed", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4", "auto-round",
    "auto-round-int8", "compressed-tensors", "modelslim", "mxfp_w4a8", "quark", "quark_int4fp8_moe", "quark_mxfp4",
    "mlx_q4", "mlx_q8", "unquant", "humming"]}
--speculative-draft-model-revision
--speculative-draft-window-size {"type": "int"}
--speculative-dspark-align-verify-tokens-to-graph-tier {"type": "bool", "default": false, "action": "store_true"}
--speculative-dspark-block-size {"type": "int"}
--speculative-dspark-confidence-sts-path
--speculative-dspark-sps-table-path
--speculative-eagle-topk {"type": "int"}
--speculative-moe-a2a-backend {"choices": ["none", "deepep", "mooncake", "nixl", "mori", "ascend_fuseep",
    "flashinfer", "megamoe", "pplx", "ascend_tp"]}
--speculative-moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "experimental_sgl_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_mxfp4",
    "flashinfer_cutedsl", "cutlass", "aiter", "marlin", "humming", "experimental_sgl_marlin", "hpc_ops", "megamoe"]}
--speculative-ngram-capacity {"type": "int", "default": 10000000}
--speculative-ngram-external-corpus-max-tokens {"type": "int", "default": 10000000}
--speculative-ngram-external-corpus-path
--speculative-ngram-external-sam-budget {"type": "int", "default": 0}
--speculative-ngram-match-type {"choices": ["BFS", "PROB"], "default": "BFS"}
--speculative-ngram-max-bfs-breadth {"type": "int", "default": 10}
--speculative-ngram-max-trie-depth {"type": "int", "default": 18}
--speculative-ngram-min-bfs-breadth {"type": "int", "default": 1}
--speculative-num-draft-tokens {"type": "int"}
--speculative-num-steps {"type": "int"}
--speculative-skip-dp-mlp-sync {"type": "bool", "default": false, "action": "store_true"}
--speculative-token-map
--speculative-use-rejection-sampling {"type": "bool", "default": false, "action": "store_true"}
--ssl-ca-certs
--ssl-certfile
--ssl-keyfile
--ssl-keyfile-password
--startup-weight-load-mode {"choices": ["serial", "overlap"], "default": "serial"}
--stream-interval {"type": "int", "default": 1}
--stream-output {"dest": "incremental_streaming_output", "type": "bool", "default": false, "action":
    "DeprecatedStoreTrueAction", "deprecated": true, "replaced_by": "--incremental-streaming-output"}
--stream-response-default-include-usage {"type": "bool", "default": false, "action": "store_true"}
--strip-thinking-cache {"type": "bool", "default": false, "action": "store_true"}
--swa-full-tokens-ratio {"type": "float", "default": 0.8}
--tbo-token-distribution-threshold {"type": "float", "default": 0.48}
--tokenizer-backend {"choices": ["huggingface", "fastokens"], "default": "huggingface"}
--tokenizer-metrics-allowed-custom-labels {"nargs": "+"}
--tokenizer-metrics-custom-labels-header {"default": "x-custom-labels"}
--tokenizer-mode {"choices": ["auto", "slow"], "default": "auto"}
--tokenizer-path
--tokenizer-worker-num {"type": "int", "default": 1}
--tool-call-parser {"choices": ["auto", "apertus2509", "cohere_command4", "deepseekv3", "deepseekv31",
    "deepseekv32", "deepseekv4", "glm", "glm45", "glm47", "gpt-oss", "kimi_k2", "kimi_k3", "lfm2", "llama3", "mimo",
    "minicpm5", "mistral", "muse", "poolside_v1", "pythonic", "qwen", "qwen25", "qwen3_coder", "step3", "step3p5",
    "minimax-m2", "minimax-m3", "trinity", "interns1", "hermes", "hunyuan", "gigachat3", "gemma4", "inkling"]}
--tool-server
--torch-compile-max-bs {"type": "int", "default": 32}
--tp-size {"aliases": ["--tensor-parallel-size"], "type": "int", "default": 1}
--trace-modules {"default": "request"}
--triton-attention-num-kv-splits {"type": "int", "default": 8}
--triton-attention-reduce-in-fp32 {"type": "bool", "default": false, "action": "store_true"}
--triton-attention-split-tile-size {"type": "int"}
--trust-mm-content-hashes {"type": "bool", "default": false, "action": "store_true"}
--trust-remote-code {"type": "bool", "default": false, "action": "store_true"}
--use-ray {"type": "bool", "default": false, "action": "store_true"}
--uvicorn-access-log-exclude-prefixes {"nargs": "*", "default": []}
--warmups
--watchdog-timeout {"type": "float", "default": 300}
--weight-cache-mode {"choices": ["off", "daemon", "client"], "default": "off"}
--weight-cache-socket
--weight-cache-timeout {"type": "int", "default": 1800}
--weight-loader-disable-mmap {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-drop-cache-after-load {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-prefetch-checkpoints {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-prefetch-num-threads {"type": "int", "default": 4}
--weight-version {"default": "default"}
"""
