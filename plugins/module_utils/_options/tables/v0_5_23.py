# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The options of SGLang 0.5.23 (531). Written by script/options-table: change that, not this."""

from __future__ import annotations

VERSION = "0.5.23"
TABLE = r"""
--abort-on-priority-when-disabled {"type": "bool", "default": false, "action": "store_true"}
--admin-api-key
--allow-auto-truncate {"type": "bool", "default": false, "action": "store_true"}
--allowed-media-domains {"nargs": "+", "default": []}
--api-key
--asr-max-buffer-seconds {"type": "int", "default": 60}
--asr-max-concurrent-sessions {"type": "int", "default": 32}
--attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "qsa", "dsv4",
    "compressed", "fa3", "fa4", "flashinfer", "llada2_cfg_flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla",
    "tokenspeed_mla", "trtllm_mha", "hpc_ops", "minicpm_flashattn", "minicpm_flashinfer", "aiter", "wave",
    "intel_amx", "ascend", "intel_xpu"]}
--attn-cp-size {"aliases": ["--attention-context-parallel-size"], "type": "int", "default": 1}
--attn-dp-size {"aliases": ["--attention-data-parallel-size"], "type": "int", "default": 1}
--base-gpu-id {"type": "int", "default": 0}
--batch-notify-size {"type": "int", "default": 16}
--bf16-gemm-backend {"choices": ["auto", "cutedsl", "gemv", "torch"], "default": "auto"}
--boundary-reduction {"choices": ["auto", "ar", "rs", "rsv", "rs+rsv"], "default": "auto"}
--bucket-e2e-request-latency {"type": "float", "nargs": "+"}
--bucket-inter-token-latency {"type": "float", "nargs": "+"}
--bucket-time-to-first-token {"type": "float", "nargs": "+"}
--c128-page-size {"type": "int", "default": 16}
--chat-template
--checkpoint-engine-wait-weights-before-ready {"type": "bool", "default": false, "action": "store_true"}
--chunked-prefill-size {"type": "int"}
--completion-template
--config
--constrained-json-disable-any-whitespace {"type": "bool", "default": false, "action": "store_true"}
--constrained-json-max-whitespace-cnt {"type": "int"}
--constrained-json-whitespace-pattern
--context-length {"type": "human_readable_int"}
--cp-strategy {"choices": ["zigzag", "interleave"]}
--cpu-offload-gb {"type": "int", "default": 0}
--crash-dump-folder
--cuda-graph-backend-decode {"type": "parse_cuda_graph_backend_arg", "choices": ["full", "breakable", "disabled"]}
--cuda-graph-backend-prefill {"type": "parse_cuda_graph_backend_arg", "choices": ["full", "breakable", "disabled"]}
--cuda-graph-bs-decode {"type": "int", "nargs": "+"}
--cuda-graph-bs-prefill {"type": "int", "nargs": "+"}
--cuda-graph-config {"type": "parse_cuda_graph_config_arg"}
--cuda-graph-max-bs-decode {"type": "int"}
--cuda-graph-max-bs-prefill {"type": "int"}
--cuda-graph-max-seq-len-prefill {"type": "int"}
--cuda-graph-prefill-max-context {"aliases": ["--context-bucket"], "type": "human_readable_int"}
--custom-weight-loader {"nargs": "*"}
--dcp-comm-backend {"choices": ["ag_rs", "a2a", "fi_a2a"]}
--dcp-replicate-q-proj {"aliases": ["--no-dcp-replicate-q-proj"], "type": "bool", "action": "BooleanOptionalAction"}
--dcp-size {"aliases": ["--decode-context-parallel-size"], "type": "int", "default": 1}
--debug-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--debug-tensor-dump-input-file
--debug-tensor-dump-layers {"type": "int", "nargs": "+"}
--debug-tensor-dump-output-folder
--decode-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "qsa", "dsv4",
    "compressed", "fa3", "fa4", "flashinfer", "llada2_cfg_flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla",
    "tokenspeed_mla", "trtllm_mha", "hpc_ops", "minicpm_flashattn", "minicpm_flashinfer", "aiter", "wave",
    "intel_amx", "ascend", "intel_xpu"]}
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
--deepep-v2-mode {"choices": ["direct", "hybrid"], "default": "direct"}
--default-chat-template-kwargs {"type": "json.loads"}
--default-priority-value {"type": "int"}
--delete-ckpt-after-loading {"type": "bool", "default": false, "action": "store_true"}
--detokenizer-worker-num {"type": "int", "default": 1}
--device
--disable-aiter-allreduce-fusion-in-decode {"type": "bool", "default": false, "action": "store_true"}
--disable-aiter-allreduce-fusion-in-prefill {"type": "bool", "default": false, "action": "store_true"}
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
--disable-prefill-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--disable-priority-preemption {"type": "bool", "default": false, "action": "store_true"}
--disable-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-shared-experts-fusion {"type": "bool", "default": false, "action": "store_true"}
--disable-tokenizer-batch-decode {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-bootstrap-port {"type": "int", "default": 8998}
--disaggregation-decode-allocation-policy {"choices": ["early", "prefill_complete"], "default": "early"}
--disaggregation-decode-enable-offload-kvcache {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-decode-enable-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-decode-extra-slots {"type": "int"}
--disaggregation-decode-host-receive-threshold {"type": "float", "default": 1.0}
--disaggregation-decode-polling-interval {"type": "int", "default": 1}
--disaggregation-decode-retraction-backup {"choices": ["cpu_tensor", "host_pool", "none"]}
--disaggregation-enable-kv-checksum {"type": "bool", "default": false, "action": "store_true"}
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
    "flashinfer_sparse_mla", "fa3", "tilelang", "triton", "aiter", "trtllm", "intel_xpu"]}
--dsa-paged-mqa-logits-backend {"choices": ["auto", "deepgemm", "cutedsl", "aiter"], "default": "auto"}
--dsa-prefill-backend {"choices": ["flashmla_sparse", "flashmla_sparse_q8", "flashmla_kv", "flashmla_auto",
    "flashinfer_sparse_mla", "triton_sparse_mla", "fa3", "tilelang", "triton", "aiter", "trtllm", "intel_xpu"]}
--dsa-topk-backend {"choices": ["sgl-kernel", "torch", "flashinfer"], "default": "sgl-kernel"}
--dsa-triton-union {"type": "int", "choices": [0, 2, 4], "default": 0}
--dsv4-attn-backend {"choices": ["auto", "flashmla", "flashmla_mega", "trtllm"], "default": "auto"}
--dsv4-prefill-backend {"choices": ["auto", "flashmla_sparse", "flashmla_sparse_q8"], "default": "auto"}
--dtype {"choices": ["auto", "half", "float16", "bfloat16", "float", "float32"], "default": "auto"}
--dwdp-size {"type": "int", "default": 1}
--dynamic-batch-tokenizer-batch-size {"type": "int", "default": 32}
--dynamic-batch-tokenizer-batch-timeout {"type": "float", "default": 0.002}
--elastic-ep-backend {"choices": ["none", "mooncake", "nixl"]}
--elastic-ep-initial-size {"type": "int"}
--elastic-ep-join-mode {"dest": "ep_join_mode", "choices": ["scale", "recover"]}
--elastic-ep-join-rank-offset {"dest": "ep_join_rank_offset", "type": "int", "default": 0}
--elastic-ep-scale-timeout {"type": "float", "default": 600}
--enable-adaptive-dispatch-to-encoder {"type": "bool", "default": false, "action": "store_true"}
--enable-aiter-allreduce-fusion {"type": "bool", "default": false, "action": "store_true"}
--enable-amd-monokernel {"type": "bool", "default": false, "action": "store_true"}
--enable-attn-tp-input-scattered {"type": "bool", "default": false, "action": "store_true"}
--enable-broadcast-mm-inputs-process {"type": "bool", "default": false, "action": "store_true"}
--enable-cache-report {"type": "bool", "default": false, "action": "store_true"}
--enable-cp-decode-attn-tp {"type": "bool", "default": false, "action": "store_true"}
--enable-cudagraph-gc {"type": "bool", "default": false, "action": "store_true"}
--enable-custom-logit-processor {"type": "bool", "default": false, "action": "store_true"}
--enable-decoder-swa-bounded-replay {"aliases": ["--no-enable-decoder-swa-bounded-replay"], "type": "bool",
    "action": "BooleanOptionalAction"}
--enable-deepseek-v4-fp4-indexer {"type": "bool", "default": false, "action": "store_true"}
--enable-dense-mlp-attn-tp {"type": "bool", "default": false, "action": "store_true"}
--enable-deterministic-inference {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-attention {"type": "bool", "default": false, "action": "DeprecatedStoreTrueAction", "deprecated": true,
    "replaced_by": "--attn-dp-size <dp-size>"}
--enable-dp-attention-local-control-broadcast {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-draft-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--enable-dsa-cache-layer-split {"type": "bool", "default": false, "action": "store_true"}
--enable-dsa-fused-indexer {"aliases": ["--no-enable-dsa-fused-indexer"], "type": "bool", "action":
    "BooleanOptionalAction"}
--enable-dynamic-batch-tokenizer {"type": "bool", "default": false, "action": "store_true"}
--enable-dynamic-chunking {"type": "bool", "default": false, "action": "store_true"}
--enable-elastic-expert-backup {"type": "bool", "default": false, "action": "store_true"}
--enable-encoder-swa-bounded-replay {"type": "bool", "default": false, "action": "store_true"}
--enable-eplb {"type": "bool", "default": false, "action": "store_true"}
--enable-flashinfer-allreduce-fusion {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--enable-flexkv {"type": "bool", "default": false, "action": "store_true"}
--enable-forward-pass-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-fp32-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-fused-moe-sum-all-reduce {"type": "bool", "default": false, "action": "store_true"}
--enable-fused-qk-norm-rope {"aliases": ["--no-enable-fused-qk-norm-rope"], "type": "bool", "action":
    "BooleanOptionalAction"}
--enable-hierarchical-cache {"aliases": ["--enable-hicache"], "type": "bool", "default": false, "action":
    "store_true"}
--enable-hisparse {"type": "bool", "default": false, "action": "store_true"}
--enable-http-worker-reuseport {"type": "bool", "default": false, "action": "store_true"}
--enable-http2 {"type": "bool", "default": false, "action": "store_true"}
--enable-int8-mamba-checkpoint {"type": "bool", "default": false, "action": "store_true"}
--enable-kv-cache-sharding {"type": "bool", "default": false, "action": "store_true"}
--enable-layernorm-sp {"type": "bool", "default": false, "action": "store_true"}
--enable-layerwise-nvtx-marker {"type": "bool", "default": false, "action": "store_true"}
--enable-lean-attention {"type": "bool", "action": "store_true"}
--enable-linear-replayssm {"type": "bool", "default": false, "action": "store_true"}
--enable-linear-replayssm-spec {"type": "bool", "default": false, "action": "store_true"}
--enable-linker-mla-dedup {"type": "bool", "default": false, "action": "store_true"}
--enable-lmcache {"type": "bool", "default": false, "action": "store_true"}
--enable-lora {"type": "bool", "action": "store_true"}
--enable-lora-overlap-loading {"type": "bool", "action": "store_true"}
--enable-mamba-cache-stochastic-rounding {"type": "bool", "default": false, "action": "store_true"}
--enable-megamoe-for-layernorm-sp {"type": "bool", "default": false, "action": "store_true"}
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
--enable-nvidia-megakernel {"type": "bool", "default": false, "action": "store_true"}
--enable-p2p-check {"type": "bool", "default": false, "action": "store_true"}
--enable-page-major-kv-layout {"type": "bool", "default": false, "action": "store_true"}
--enable-paged-experts {"type": "bool", "default": false, "action": "store_true"}
--enable-pd-role-switch {"type": "bool", "default": false, "action": "store_true"}
--enable-pdmux {"type": "bool", "default": false, "action": "store_true"}
--enable-precise-embedding-interpolation {"type": "bool", "default": false, "action": "store_true"}
--enable-prefill-cp {"type": "bool", "default": false, "action": "store_true"}
--enable-prefill-delayer {"type": "bool", "default": false, "action": "store_true"}
--enable-prefix-mm-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-priority-scheduling {"type": "bool", "default": false, "action": "store_true"}
--enable-profile-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--enable-quant-communications {"type": "bool", "default": false, "action": "store_true"}
--enable-request-time-stats-logging {"type": "bool", "default": false, "action": "store_true"}
--enable-response-store {"type": "bool", "default": false, "action": "store_true"}
--enable-return-aux-hidden-states {"type": "bool", "default": false, "action": "store_true"}
--enable-return-hidden-states {"type": "bool", "default": false, "action": "store_true"}
--enable-return-indexer-topk {"type": "bool", "default": false, "action": "store_true"}
--enable-return-routed-experts {"type": "bool", "default": false, "action": "store_true"}
--enable-scattered-sconv {"type": "bool", "default": false, "action": "store_true"}
--enable-session-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-shared-experts-attn-tp {"type": "bool", "default": false, "action": "store_true"}
--enable-single-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-ssl-refresh {"type": "bool", "default": false, "action": "store_true"}
--enable-streaming-session {"type": "bool", "default": false, "action": "store_true"}
--enable-strict-thinking {"type": "bool", "default": false, "action": "store_true"}
--enable-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-tf32-matmul {"aliases": ["--no-enable-tf32-matmul"], "type": "bool", "action": "BooleanOptionalAction"}
--enable-tokenizer-batch-encode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile-debug-mode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-tp-lm-head-all-to-all {"aliases": ["--no-enable-tp-lm-head-all-to-all"], "type": "bool", "action":
    "BooleanOptionalAction"}
--enable-trace {"type": "bool", "default": false, "action": "store_true"}
--enable-two-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-unified-cache-external-linker {"type": "bool", "default": false, "action": "store_true"}
--enable-unified-memory {"type": "bool", "default": false, "action": "store_true"}
--enable-w4a4-mxfp4-megamoe {"type": "bool", "default": false, "action": "store_true"}
--enable-waterfill {"type": "bool", "default": false, "action": "store_true"}
--enable-watermark {"type": "bool", "default": false, "action": "store_true"}
--enable-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--encoder-bootstrap-port {"type": "int", "default": 8997}
--encoder-only {"type": "bool", "default": false, "action": "store_true"}
--encoder-register-urls {"nargs": "+", "default": []}
--encoder-transfer-backend {"choices": ["auto", "zmq_to_scheduler", "zmq_to_tokenizer", "mooncake"], "default":
    "auto"}
--encoder-urls {"nargs": "+", "default": []}
--enforce-disable-flashinfer-allreduce-fusion {"type": "bool", "default": false, "action": "store_true"}
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
--file-storage-path
--flashinfer-a2a-dispatch-type {"choices": ["auto", "bf16", "nvfp4", "mxfp8"]}
--flashinfer-allreduce-fusion-backend {"choices": ["auto", "trtllm", "mnnvl", "cutedsl"]}
--flashinfer-autotune-skip-ops {"nargs": "+"}
--flashinfer-mla-disable-ragged {"type": "bool", "default": false, "action": "store_true"}
--flashinfer-mxfp4-moe-precision {"choices": ["default", "bf16", "fp8"], "default": "default"}
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
--gated-launch-port {"type": "int"}
--gc-threshold {"type": "int", "nargs": "+"}
--gc-warning-threshold-secs {"type": "float", "default": 0.0}
--generation-tokens-buckets {"nargs": "+"}
--gpu-id-step {"type": "int", "default": 1}
--grammar-backend {"choices": ["xgrammar", "outlines", "llguidance", "none"]}
--grpc-mode {"type": "bool", "default": false, "action": "store_true", "deprecated": true}
--grpc-port {"type": "int"}
--grpc-response-timeout-secs {"type": "int", "default": 300}
--hf-chat-template-name
--hicache-host-memory-fraction {"type": "float", "default": 0.8}
--hicache-host-memory-mode {"choices": ["cache", "buffer_only"], "default": "cache"}
--hicache-io-backend {"choices": ["direct", "kernel", "kernel_ascend"], "default": "kernel"}
--hicache-mem-layout {"choices": ["layer_first", "page_first", "page_first_direct", "page_first_kv_split",
    "page_head"], "default": "page_first"}
--hicache-ratio {"type": "float"}
--hicache-size {"type": "int", "default": 0}
--hicache-storage-backend {"choices": ["file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix",
    "dynamic", "eic", "simm", "mori", "shm", "tensorcast", "seaweedfs"]}
--hicache-storage-backend-extra-config
--hicache-storage-prefetch-policy {"choices": ["best_effort", "wait_complete", "timeout"], "default": "timeout"}
--hicache-storage-prefetch-retry-max-attempts {"type": "int", "default": 8}
--hicache-storage-prefetch-retry-poll-interval {"type": "int", "default": 8}
--hicache-write-policy {"choices": ["write_back", "write_through", "write_through_selective"], "default":
    "write_through"}
--hisparse-config {"aliases": ["--hierarchical-sparse-attention-extra-config"]}
--host {"default": "127.0.0.1"}
--http2-initial-connection-window-size {"type": "int", "default": 1048576}
--http2-max-concurrent-streams {"type": "int", "default": 200}
--image-processor-backend {"choices": ["auto", "torchvision", "pil"], "default": "auto"}
--incremental-streaming-output {"type": "bool", "default": false, "action": "store_true"}
--init-expert-location {"default": "trivial"}
--int8-mamba-ckpt-size {"type": "int"}
--is-embedding {"type": "bool", "default": false, "action": "store_true"}
--json-model-override-args {"default": "{}"}
--kt-cpuinfer {"type": "int"}
--kt-max-deferred-experts-per-token {"type": "int"}
--kt-method {"default": "AMXINT4"}
--kt-num-gpu-experts {"type": "int"}
--kt-threadpool-count {"type": "int", "default": 2}
--kt-weight-path
--kv-cache-dtype {"choices": ["auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4",
    "fp4_mx_block16"], "default": "auto"}
--kv-canary {"choices": ["none", "log", "raise"], "default": "none"}
--kv-canary-real-data {"choices": ["none", "partial", "all"], "default": "none"}
--kv-canary-sweep-interval {"type": "int", "default": 0}
--kv-events-config
--language-model-only {"type": "bool", "default": false, "action": "store_true"}
--language-only {"type": "bool", "default": false, "action": "store_true"}
--limit-mm-data-per-request {"type": "json.loads"}
--linear-attn-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda", "helion",
    "intel_xpu"], "default": "triton"}
--linear-attn-decode-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion", "intel_xpu"]}
--linear-attn-prefill-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion", "intel_xpu"]}
--linear-attn-verify-backend {"choices": ["triton", "cutedsl", "flashinfer", "flashkda", "nvidia_kda", "ptx_kda",
    "helion", "intel_xpu", "nv_cutedsl"]}
--linear-replayssm-cache-len {"type": "int", "default": 16}
--lmcache-config-file
--load-balance-method {"choices": ["auto", "round_robin", "follow_bootstrap_room", "total_requests",
    "total_tokens"], "default": "auto"}
--load-format {"choices": ["auto", "pt", "safetensors", "instanttensor", "npcache", "dummy", "sharded_state",
    "presharded", "gguf", "expert_pack", "bitsandbytes", "mistral", "layered", "flash_rl", "remote",
    "remote_instance", "fastsafetensors", "private", "runai_streamer"], "default": "auto"}
--load-publish-endpoint
--load-snapshot-publish-interval {"type": "int", "default": 15}
--log-level {"default": "info"}
--log-level-http
--log-requests {"type": "bool", "default": false, "action": "store_true"}
--log-requests-format {"choices": ["text", "json"], "default": "text"}
--log-requests-level {"type": "int", "choices": [0, 1, 2, 3], "default": 2}
--log-requests-target {"nargs": "+"}
--lora-backend {"choices": ["triton", "csgmv", "ascend", "torch_native", "triton_v2"], "default": "csgmv"}
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
--mamba-full-memory-ratio {"type": "float"}
--mamba-max-states-per-path {"type": "int", "default": -1}
--mamba-radix-cache-strategy {"choices": ["auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"], "default":
    "auto"}
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
--mm-enable-dp-encoder {"aliases": ["--no-mm-enable-dp-encoder"], "type": "bool", "action": "BooleanOptionalAction"}
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
    "megamoe", "deepep_v2", "pplx", "ascend_tp", "flashinfer_megamoe"], "default": "none"}
--moe-dense-tp-size {"type": "int"}
--moe-dp-size {"aliases": ["--moe-data-parallel-size"], "type": "int", "default": 1}
--moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "experimental_sgl_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_mxfp4",
    "flashinfer_cutedsl", "flashinfer_megamoe", "cutlass", "aiter", "marlin", "humming", "experimental_sgl_marlin",
    "lora_cutedsl", "lora_triton", "lora_marlin", "hpc_ops", "megamoe", "intel_xpu"], "default": "auto"}
--monokernel-backend {"dest": "enable_amd_monokernel", "choices": ["amd"], "default": false, "action":
    "DeprecatedStoreConstAction", "deprecated": true, "replaced_by": "--enable-amd-monokernel"}
--mooncake-ib-device
--msprobe-dump-config
--nccl-port {"type": "int"}
--nnodes {"type": "int", "default": 1}
--node-rank {"type": "int", "default": 0}
--num-continuous-decode-steps {"type": "int", "default": 1}
--num-reserved-decode-tokens {"type": "int", "default": 512}
--numa-node {"type": "int", "nargs": "+"}
--offload-group-size {"type": "int", "default": -1}
--offload-mode {"default": "cpu"}
--offload-num-in-group {"type": "int", "default": 1}
--offload-prefetch-step {"type": "int", "default": 1}
--optimistic-prefill-attempts {"type": "int", "default": 0}
--otlp-service-name
--otlp-traces-endpoint {"default": "localhost:4317"}
--page-size {"type": "int"}
--paged-experts-num-resident {"type": "int"}
--pdmux-config-path
--ple-offload-backend {"choices": ["pinned", "file"], "default": "pinned"}
--ple-offload-dir
--ple-offload-embedding {"aliases": ["--no-ple-offload-embedding"], "type": "bool", "action":
    "BooleanOptionalAction"}
--port {"type": "int", "default": 30000}
--pp-async-batch-depth {"type": "int", "default": 0}
--pp-max-micro-batch-size {"type": "int"}
--pp-size {"aliases": ["--pipeline-parallel-size"], "type": "int", "default": 1}
--pre-warm-nccl {"type": "bool", "default": false, "action": "store_true"}
--preferred-sampling-params {"type": "json.loads"}
--prefill-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "dsa", "nsa", "qsa", "dsv4",
    "compressed", "fa3", "fa4", "flashinfer", "llada2_cfg_flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla",
    "tokenspeed_mla", "trtllm_mha", "hpc_ops", "minicpm_flashattn", "minicpm_flashinfer", "aiter", "wave",
    "intel_amx", "ascend", "intel_xpu"]}
--prefill-decode-interval {"type": "int"}
--prefill-decode-interval-min-bs {"type": "int", "default": 0}
--prefill-delayer-forward-passes-buckets {"type": "float", "nargs": "+"}
--prefill-delayer-max-delay-ms {"type": "float"}
--prefill-delayer-max-delay-passes {"type": "int", "default": 30}
--prefill-delayer-queue-min-ratio {"type": "float"}
--prefill-delayer-token-usage-low-watermark {"type": "float"}
--prefill-delayer-wait-seconds-buckets {"type": "float", "nargs": "+"}
--prefill-kv-cache-dequant-dtype {"choices": ["auto", "nvfp4", "fp8_e4m3"], "default": "auto"}
--prefill-max-requests {"type": "int"}
--prefill-only-disable-kv-cache {"type": "bool", "default": false, "action": "store_true"}
--priority-scheduling-preemption-threshold {"type": "int", "default": 10}
--prompt-tokens-buckets {"nargs": "+"}
--qsa-indexer-dtype {"choices": ["auto", "bfloat16", "fp8_e4m3"], "default": "auto"}
--quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf",
    "modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed", "petit_nvfp4", "w8a8_int8",
    "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4", "auto-round", "auto-round-int8", "compressed-tensors", "modelslim",
    "mxfp_w4a8", "quark", "quark_int4fp8_moe", "quark_mxfp4", "mlx_q4", "mlx_q8", "unquant", "humming"]}
--quantization-param-path {"type": "nullable_str"}
--quantize-and-serve {"type": "bool", "default": false, "action": "store_true"}
--radix-cache-backend
--radix-eviction-policy {"choices": ["lru", "lfu", "slru", "priority", "tlru"], "default": "lru"}
--radix-eviction-policy-config {"type": "json.loads"}
--random-seed {"type": "int"}
--reasoning-parser {"choices": ["auto", "apertus2509", "beam", "deepseek-r1", "deepseek-v3", "deepseek-v4",
    "deepseek-v41", "dots", "glm45", "ling3", "hunyuan", "gpt-oss", "k2_horizon", "kimi", "kimi_k2", "kimi_k3",
    "mimo", "muse", "poolside_v1", "qwen3", "qwen3-thinking", "minimax", "minimax-append-think", "minimax-m3",
    "nanbeige", "step3", "step3p5", "mistral", "nemotron_3", "granite_thinking_parser", "interns1", "gemma4",
    "inkling", "iquest_q1", "cohere_command4", "gigachat35", "response_template"]}
--remote-instance-weight-loader-backend {"choices": ["transfer_engine", "nccl", "modelexpress"], "default": "nccl"}
--remote-instance-weight-loader-seed-instance-ip
--remote-instance-weight-loader-seed-instance-service-port {"type": "int"}
--remote-instance-weight-loader-send-weights-group-ports {"type": "json_list_type"}
--remote-instance-weight-loader-start-seed-via-transfer-engine {"type": "bool", "default": false, "action":
    "store_true"}
--retraction-policy {"choices": ["length", "priority"], "default": "length"}
--return-aux-hidden-state-layer-ids {"type": "int", "nargs": "+"}
--return-hidden-states-mode {"choices": ["last", "full"]}
--return-input-ids {"type": "bool", "default": false, "action": "store_true"}
--return-output-ids {"type": "bool", "default": false, "action": "store_true"}
--revision
--rl-on-policy-target {"choices": ["fsdp"]}
--rl-quant-profile
--sampling-backend {"choices": ["ascend", "flashinfer", "intel_xpu", "pytorch"]}
--sampling-defaults {"choices": ["openai", "model"], "default": "model"}
--sampling-mask-max-tokens {"type": "int", "default": 4096}
--schedule-conservativeness {"type": "float", "default": 1.0}
--schedule-low-priority-values-first {"type": "bool", "default": false, "action": "store_true"}
--schedule-policy {"choices": ["lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key", "hrrn",
    "shortest-prefill-first"], "default": "fcfs"}
--scheduler-recv-interval {"type": "int", "default": 1}
--served-model-name
--shared-experts-tp-size {"type": "int"}
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
--speculative-domino-candidate-pool-size {"type": "int", "default": 2048}
--speculative-draft-attention-backend
--speculative-draft-kv-cache-dtype {"choices": ["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"]}
--speculative-draft-load-format {"choices": ["auto", "pt", "safetensors", "instanttensor", "npcache", "dummy",
    "sharded_state", "presharded", "gguf", "expert_pack", "bitsandbytes", "mistral", "layered", "flash_rl",
    "remote", "remote_instance", "fastsafetensors", "private", "runai_streamer"]}
--speculative-draft-model-path {"aliases": ["--speculative-draft-model"]}
--speculative-draft-model-quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "gptq_marlin", "awq_marlin",
    "bitsandbytes", "gguf", "modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online", "modelopt_mixed",
    "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8", "mxfp4", "auto-round", "auto-round-int8",
    "compressed-tensors", "modelslim", "mxfp_w4a8", "quark", "quark_int4fp8_moe", "quark_mxfp4", "mlx_q4", "mlx_q8",
    "unquant", "humming"]}
--speculative-draft-model-revision
--speculative-draft-sink-size {"type": "int"}
--speculative-draft-window-size {"type": "int"}
--speculative-dsa-topk-backend {"choices": ["sgl-kernel", "torch", "flashinfer"], "default": "sgl-kernel"}
--speculative-dspark-align-verify-tokens-to-graph-tier {"type": "bool", "default": false, "action": "store_true"}
--speculative-dspark-block-size {"type": "int"}
--speculative-dspark-confidence-sts-path
--speculative-dspark-sps-table-path
--speculative-eagle-topk {"type": "int"}
--speculative-enable-w4a4-mxfp4-megamoe {"aliases": ["--no-speculative-enable-w4a4-mxfp4-megamoe"], "type": "bool",
    "action": "BooleanOptionalAction"}
--speculative-moe-a2a-backend {"choices": ["none", "deepep", "mooncake", "nixl", "mori", "ascend_fuseep",
    "flashinfer", "megamoe", "deepep_v2", "pplx", "ascend_tp"]}
--speculative-moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "experimental_sgl_trtllm", "flashinfer_trtllm_routed", "flashinfer_cutlass", "flashinfer_mxfp4",
    "flashinfer_cutedsl", "flashinfer_megamoe", "cutlass", "aiter", "marlin", "humming", "experimental_sgl_marlin",
    "lora_cutedsl", "lora_triton", "lora_marlin", "hpc_ops", "megamoe", "intel_xpu"]}
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
--speculative-token-map
--speculative-use-block-verification {"type": "bool", "default": false, "action": "store_true"}
--speculative-use-rejection-sampling {"type": "bool", "default": false, "action": "store_true"}
--ssl-ca-certs
--ssl-certfile
--ssl-keyfile
--ssl-keyfile-password
--startup-weight-load-mode {"choices": ["serial", "overlap"], "default": "serial"}
--stream-interval {"type": "int", "default": 1}
--stream-response-default-include-usage {"type": "bool", "default": false, "action": "store_true"}
--strip-thinking-cache {"type": "bool", "default": false, "action": "store_true"}
--swa-full-tokens-ratio {"type": "float"}
--swa-prefix-tails {"type": "int"}
--tbo-token-distribution-threshold {"type": "float", "default": 0.48}
--tokenizer-backend {"choices": ["huggingface", "fastokens"], "default": "huggingface"}
--tokenizer-metrics-allowed-custom-labels {"nargs": "+"}
--tokenizer-metrics-custom-labels-header {"default": "x-custom-labels"}
--tokenizer-mode {"choices": ["auto", "slow"], "default": "auto"}
--tokenizer-path
--tokenizer-worker-num {"type": "int", "default": 1}
--tool-call-parser {"choices": ["auto", "apertus2509", "beam", "cohere_command4", "deepseekv3", "deepseekv31",
    "deepseekv32", "deepseekv4", "deepseekv41", "dots", "glm", "glm45", "glm47", "gpt-oss", "k2_horizon", "kimi_k2",
    "kimi_k3", "lfm2", "ling3", "llama3", "mimo", "minicpm5", "mistral", "muse", "poolside_v1", "pythonic", "qwen",
    "qwen25", "qwen3_coder", "spark25", "step3", "step3p5", "minimax-m2", "minimax-m3", "nanbeige", "trinity",
    "interns1", "hermes", "hunyuan", "gigachat3", "gigachat35", "gemma4", "inkling", "iquest_q1",
    "response_template"]}
--tool-server
--torch-compile-max-bs {"type": "int", "default": 32}
--tp-size {"aliases": ["--tensor-parallel-size"], "type": "int", "default": 1}
--trace-modules {"default": "request"}
--triton-attention-num-kv-splits {"type": "int", "default": 8}
--triton-attention-reduce-in-fp32 {"type": "bool", "default": false, "action": "store_true"}
--triton-attention-split-tile-size {"type": "int"}
--trust-mm-content-hashes {"type": "bool", "default": false, "action": "store_true"}
--trust-remote-code {"type": "bool", "default": false, "action": "store_true"}
--trust-request-chat-template {"type": "bool", "default": false, "action": "store_true"}
--unified-cache-external-linker-backend {"choices": ["mooncake", "mori", "dynamic"], "default": "mooncake"}
--unified-cache-external-linker-config {"type": "json.loads"}
--uno-lora-path
--use-ray {"type": "bool", "default": false, "action": "store_true"}
--uvicorn-access-log-exclude-prefixes {"nargs": "*", "default": []}
--warmups
--watchdog-timeout {"type": "float", "default": 300}
--watermark-config
--weight-cache-mode {"choices": ["off", "daemon", "client"], "default": "off"}
--weight-cache-socket
--weight-cache-timeout {"type": "int", "default": 1800}
--weight-loader-disable-mmap {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-drop-cache-after-load {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-prefetch-checkpoints {"type": "bool", "default": false, "action": "store_true"}
--weight-loader-prefetch-num-threads {"type": "int", "default": 4}
--weight-version {"default": "default"}
"""
