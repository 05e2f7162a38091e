# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""The options of SGLang 0.5.9 (331). Written by script/options-table: change that, not this."""

from __future__ import annotations

VERSION = "0.5.9"
TABLE = r"""
--abort-on-priority-when-disabled {"type": "bool", "default": false, "action": "store_true"}
--admin-api-key
--allow-auto-truncate {"type": "bool", "default": false, "action": "store_true"}
--api-key
--attention-backend {"choices": ["triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3", "fa4",
    "flashinfer", "flashmla", "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave", "intel_amx",
    "ascend", "intel_xpu"]}
--attention-context-parallel-size {"aliases": ["--attn-cp-size"], "type": "int", "default": 1}
--base-gpu-id {"type": "int", "default": 0}
--bucket-e2e-request-latency {"type": "float", "nargs": "+"}
--bucket-inter-token-latency {"type": "float", "nargs": "+"}
--bucket-time-to-first-token {"type": "float", "nargs": "+"}
--chat-template
--checkpoint-engine-wait-weights-before-ready {"type": "bool", "default": false, "action": "store_true"}
--chunked-prefill-size {"type": "int"}
--collect-tokens-histogram {"type": "bool", "default": false, "action": "store_true"}
--completion-template
--config
--constrained-json-disable-any-whitespace {"type": "bool", "default": false, "action": "store_true"}
--constrained-json-whitespace-pattern
--context-length {"type": "int"}
--cpu-offload-gb {"type": "int", "default": 0}
--crash-dump-folder
--cuda-graph-bs {"type": "int", "nargs": "+"}
--cuda-graph-max-bs {"type": "int"}
--custom-sigquit-handler
--custom-weight-loader {"nargs": "*"}
--data-parallel-size {"aliases": ["--dp-size"], "type": "int", "default": 1}
--debug-tensor-dump-inject {"default": false}
--debug-tensor-dump-input-file
--debug-tensor-dump-layers {"type": "int", "nargs": "+"}
--debug-tensor-dump-output-folder
--decode-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3",
    "fa4", "flashinfer", "flashmla", "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave",
    "intel_amx", "ascend", "intel_xpu"]}
--decode-log-interval {"type": "int", "default": 40}
--decrypted-config-file
--decrypted-draft-config-file
--deepep-config
--deepep-mode {"choices": ["normal", "low_latency", "auto"], "default": "auto"}
--delete-ckpt-after-loading {"type": "bool", "default": false, "action": "store_true"}
--device
--disable-chunked-prefix-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--disable-cuda-graph-padding {"type": "bool", "default": false, "action": "store_true"}
--disable-custom-all-reduce {"type": "bool", "default": false, "action": "store_true"}
--disable-fast-image-processor {"type": "bool", "default": false, "action": "store_true"}
--disable-flashinfer-autotune {"type": "bool", "default": false, "action": "store_true"}
--disable-flashinfer-cutlass-moe-fp4-allgather {"type": "bool", "default": false, "action": "store_true"}
--disable-hicache-numa-detect {"type": "bool", "default": false, "action": "store_true"}
--disable-hybrid-swa-memory {"type": "bool", "default": false, "action": "store_true"}
--disable-outlines-disk-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-overlap-schedule {"type": "bool", "default": false, "action": "store_true"}
--disable-radix-cache {"type": "bool", "default": false, "action": "store_true"}
--disable-shared-experts-fusion {"type": "bool", "default": false, "action": "store_true"}
--disable-tokenizer-batch-decode {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-bootstrap-port {"type": "int", "default": 8998}
--disaggregation-decode-dp {"type": "int"}
--disaggregation-decode-enable-offload-kvcache {"type": "bool", "default": false, "action": "store_true"}
--disaggregation-decode-polling-interval {"type": "int", "default": 1}
--disaggregation-decode-tp {"type": "int"}
--disaggregation-ib-device
--disaggregation-mode {"choices": ["null", "prefill", "decode"], "default": "null"}
--disaggregation-prefill-pp {"type": "int", "default": 1}
--disaggregation-transfer-backend {"choices": ["mooncake", "nixl", "ascend", "fake", "mori"], "default": "mooncake"}
--dist-init-addr {"aliases": ["--nccl-init-addr"]}
--dist-timeout {"type": "int"}
--dllm-algorithm
--dllm-algorithm-config
--download-dir
--ds-channel-config-path
--ds-heavy-channel-num {"type": "int", "default": 32}
--ds-heavy-channel-type {"default": "qk"}
--ds-heavy-token-num {"type": "int", "default": 256}
--ds-sparse-decode-threshold {"type": "int", "default": 4096}
--dtype {"choices": ["auto", "half", "float16", "bfloat16", "float", "float32"], "default": "auto"}
--dynamic-batch-tokenizer-batch-size {"type": "int", "default": 32}
--dynamic-batch-tokenizer-batch-timeout {"type": "float", "default": 0.002}
--elastic-ep-backend {"choices": ["none", "mooncake"]}
--enable-attn-tp-input-scattered {"type": "bool", "default": false, "action": "store_true"}
--enable-broadcast-mm-inputs-process {"type": "bool", "default": false, "action": "store_true"}
--enable-cache-report {"type": "bool", "default": false, "action": "store_true"}
--enable-cudagraph-gc {"type": "bool", "default": false, "action": "store_true"}
--enable-custom-logit-processor {"type": "bool", "default": false, "action": "store_true"}
--enable-deterministic-inference {"type": "bool", "default": false, "action": "store_true"}
--enable-double-sparsity {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-attention {"type": "bool", "default": false, "action": "store_true"}
--enable-dp-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-draft-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--enable-dynamic-batch-tokenizer {"type": "bool", "default": false, "action": "store_true"}
--enable-dynamic-chunking {"type": "bool", "default": false, "action": "store_true"}
--enable-eplb {"type": "bool", "default": false, "action": "store_true"}
--enable-expert-distribution-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-flashinfer-allreduce-fusion {"type": "bool", "default": false, "action": "store_true"}
--enable-fp32-lm-head {"type": "bool", "default": false, "action": "store_true"}
--enable-fused-qk-norm-rope {"type": "bool", "default": false, "action": "store_true"}
--enable-hierarchical-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-layerwise-nvtx-marker {"type": "bool", "default": false, "action": "store_true"}
--enable-lmcache {"type": "bool", "default": false, "action": "store_true"}
--enable-lora {"type": "bool", "action": "store_true"}
--enable-lora-overlap-loading {"type": "bool", "action": "store_true"}
--enable-memory-saver {"type": "bool", "default": false, "action": "store_true"}
--enable-metrics {"type": "bool", "default": false, "action": "store_true"}
--enable-metrics-for-all-schedulers {"type": "bool", "default": false, "action": "store_true"}
--enable-mixed-chunk {"type": "bool", "default": false, "action": "store_true"}
--enable-mscclpp {"type": "bool", "default": false, "action": "store_true"}
--enable-multi-layer-eagle {"type": "bool", "default": false, "action": "store_true"}
--enable-multimodal {"type": "bool", "action": "store_true"}
--enable-nan-detection {"type": "bool", "default": false, "action": "store_true"}
--enable-nccl-nvls {"type": "bool", "default": false, "action": "store_true"}
--enable-nsa-prefill-context-parallel {"type": "bool", "default": false, "action": "store_true"}
--enable-p2p-check {"type": "bool", "default": false, "action": "store_true"}
--enable-pdmux {"type": "bool", "default": false, "action": "store_true"}
--enable-piecewise-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--enable-precise-embedding-interpolation {"type": "bool", "default": false, "action": "store_true"}
--enable-prefill-delayer {"type": "bool", "default": false, "action": "store_true"}
--enable-prefix-mm-cache {"type": "bool", "default": false, "action": "store_true"}
--enable-priority-scheduling {"type": "bool", "default": false, "action": "store_true"}
--enable-profile-cuda-graph {"type": "bool", "default": false, "action": "store_true"}
--enable-request-time-stats-logging {"type": "bool", "default": false, "action": "store_true"}
--enable-return-hidden-states {"type": "bool", "default": false, "action": "store_true"}
--enable-return-routed-experts {"type": "bool", "default": false, "action": "store_true"}
--enable-single-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-tokenizer-batch-encode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-compile-debug-mode {"type": "bool", "default": false, "action": "store_true"}
--enable-torch-symm-mem {"type": "bool", "default": false, "action": "store_true"}
--enable-trace {"type": "bool", "default": false, "action": "store_true"}
--enable-two-batch-overlap {"type": "bool", "default": false, "action": "store_true"}
--enable-weights-cpu-backup {"type": "bool", "default": false, "action": "store_true"}
--encoder-only {"type": "bool", "default": false, "action": "store_true"}
--encoder-transfer-backend {"choices": ["zmq_to_scheduler", "zmq_to_tokenizer", "mooncake"], "default":
    "zmq_to_scheduler"}
--encoder-urls {"nargs": "+", "default": []}
--ep-dispatch-algorithm
--ep-num-redundant-experts {"type": "int", "default": 0}
--eplb-algorithm {"default": "auto"}
--eplb-min-rebalancing-utilization-threshold {"type": "float", "default": 1.0}
--eplb-rebalance-layers-per-chunk {"type": "int"}
--eplb-rebalance-num-iterations {"type": "int", "default": 1000}
--expert-distribution-recorder-buffer-size {"type": "int"}
--expert-distribution-recorder-mode
--expert-parallel-size {"aliases": ["--ep-size", "--ep"], "type": "int", "default": 1}
--export-metrics-to-file {"type": "bool", "default": false, "action": "store_true"}
--export-metrics-to-file-dir
--extra-metric-labels {"type": "json.loads"}
--fastapi-root-path {"default": ""}
--file-storage-path {"default": "sglang_storage"}
--flashinfer-mla-disable-ragged {"type": "bool", "default": false, "action": "store_true"}
--flashinfer-mxfp4-moe-precision {"choices": ["default", "bf16"], "default": "default"}
--forward-hooks {"type": "json_list_type"}
--fp4-gemm-backend {"dest": "fp4_gemm_runner_backend", "choices": ["auto", "flashinfer_cudnn", "flashinfer_cutlass",
    "flashinfer_trtllm"], "default": "flashinfer_cutlass"}
--fp8-gemm-backend {"dest": "fp8_gemm_runner_backend", "choices": ["auto", "deep_gemm", "flashinfer_trtllm",
    "flashinfer_deepgemm", "cutlass", "triton", "aiter"], "default": "auto"}
--gc-warning-threshold-secs {"type": "float", "default": 0.0}
--generation-tokens-buckets {"nargs": "+"}
--gpu-id-step {"type": "int", "default": 1}
--grammar-backend {"choices": ["xgrammar", "outlines", "llguidance", "none"]}
--grpc-mode {"type": "bool", "default": false, "action": "store_true"}
--hf-chat-template-name
--hicache-io-backend {"choices": ["direct", "kernel", "kernel_ascend"], "default": "kernel"}
--hicache-mem-layout {"choices": ["layer_first", "page_first", "page_first_direct", "page_first_kv_split",
    "page_head"], "default": "layer_first"}
--hicache-ratio {"type": "float", "default": 2.0}
--hicache-size {"type": "int", "default": 0}
--hicache-storage-backend {"choices": ["file", "mooncake", "hf3fs", "nixl", "aibrix", "dynamic", "eic"]}
--hicache-storage-backend-extra-config
--hicache-storage-prefetch-policy {"choices": ["best_effort", "wait_complete", "timeout"], "default": "best_effort"}
--hicache-write-policy {"choices": ["write_back", "write_through", "write_through_selective"], "default":
    "write_through"}
--hierarchical-sparse-attention-extra-config
--host {"default": "127.0.0.1"}
--hybrid-kvcache-ratio {"action": "DeprecatedAction", "deprecated": true}
--init-expert-location {"default": "trivial"}
--is-embedding {"type": "bool", "default": false, "action": "store_true"}
--json-model-override-args {"default": "{}"}
--keep-mm-feature-on-device {"type": "bool", "default": false, "action": "store_true"}
--kt-cpuinfer {"type": "int"}
--kt-max-deferred-experts-per-token {"type": "int"}
--kt-method {"default": "AMXINT4"}
--kt-num-gpu-experts {"type": "int"}
--kt-threadpool-count {"type": "int", "default": 2}
--kt-weight-path
--kv-cache-dtype {"choices": ["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"], "default": "auto"}
--kv-events-config
--language-only {"type": "bool", "default": false, "action": "store_true"}
--limit-mm-data-per-request {"type": "json.loads"}
--load-balance-method {"choices": ["auto", "round_robin", "follow_bootstrap_room", "total_requests",
    "total_tokens"], "default": "auto"}
--load-format {"choices": ["auto", "pt", "safetensors", "npcache", "dummy", "sharded_state", "gguf", "bitsandbytes",
    "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors", "private"], "default": "auto"}
--log-level {"default": "info"}
--log-level-http
--log-requests {"type": "bool", "default": false, "action": "store_true"}
--log-requests-format {"choices": ["text", "json"], "default": "text"}
--log-requests-level {"type": "int", "choices": [0, 1, 2, 3], "default": 2}
--log-requests-target {"nargs": "+"}
--lora-backend {"choices": ["triton", "csgmv", "ascend", "torch_native"], "default": "csgmv"}
--lora-eviction-policy {"choices": ["lru", "fifo"], "default": "lru"}
--lora-paths {"nargs": "*", "action": "LoRAPathAction"}
--lora-target-modules {"nargs": "*", "choices": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
    "down_proj", "qkv_proj", "gate_up_proj", "embed_tokens", "lm_head", "all"]}
--mamba-backend {"choices": ["triton", "flashinfer"], "default": "triton"}
--mamba-full-memory-ratio {"type": "float", "default": 0.9}
--mamba-scheduler-strategy {"choices": ["auto", "no_buffer", "extra_buffer"], "default": "auto"}
--mamba-ssm-dtype {"choices": ["float32", "bfloat16", "float16"]}
--mamba-track-interval {"type": "int", "default": 256}
--max-loaded-loras {"type": "int"}
--max-lora-chunk-size {"type": "int", "choices": [16, 32, 64, 128], "default": 16}
--max-lora-rank {"type": "int"}
--max-loras-per-batch {"type": "int", "default": 8}
--max-mamba-cache-size {"type": "int"}
--max-prefill-tokens {"type": "int", "default": 16384}
--max-queued-requests {"type": "int"}
--max-running-requests {"type": "int"}
--max-total-tokens {"type": "int"}
--mem-fraction-static {"type": "float"}
--mm-attention-backend {"choices": ["sdpa", "fa3", "fa4", "triton_attn", "ascend_attn", "aiter_attn"]}
--mm-enable-dp-encoder {"type": "bool", "default": false, "action": "store_true"}
--mm-max-concurrent-calls {"type": "int", "default": 32}
--mm-per-request-timeout {"type": "int", "default": 10.0}
--mm-process-config {"type": "json.loads"}
--model-checksum {"nargs": "?", "const": ""}
--model-impl {"default": "auto"}
--model-loader-extra-config {"default": "{}"}
--model-path {"aliases": ["--model"], "required": true}
--modelopt-checkpoint-restore-path
--modelopt-checkpoint-save-path
--modelopt-export-path
--modelopt-quant
--moe-a2a-backend {"choices": ["none", "deepep", "mooncake", "mori", "ascend_fuseep", "flashinfer"], "default":
    "none"}
--moe-data-parallel-size {"aliases": ["--moe-dp-size"], "type": "int", "default": 1}
--moe-dense-tp-size {"type": "int"}
--moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "flashinfer_cutlass", "flashinfer_mxfp4", "flashinfer_cutedsl", "cutlass"], "default": "auto"}
--mooncake-ib-device
--multi-item-scoring-delimiter {"type": "int"}
--nccl-port {"type": "int"}
--nnodes {"type": "int", "default": 1}
--node-rank {"type": "int", "default": 0}
--nsa-decode-backend {"choices": ["flashmla_sparse", "flashmla_kv", "flashmla_auto", "fa3", "tilelang", "aiter",
    "trtllm"]}
--nsa-prefill-backend {"choices": ["flashmla_sparse", "flashmla_kv", "flashmla_auto", "fa3", "tilelang", "aiter",
    "trtllm"]}
--nsa-prefill-cp-mode {"choices": ["in-seq-split", "round-robin-split"], "default": "round-robin-split"}
--num-continuous-decode-steps {"type": "int", "default": 1}
--num-reserved-decode-tokens {"type": "int", "default": 512}
--numa-node {"type": "int", "nargs": "+"}
--offload-group-size {"type": "int", "default": -1}
--offload-mode {"default": "cpu"}
--offload-num-in-group {"type": "int", "default": 1}
--offload-prefetch-step {"type": "int", "default": 1}
--otlp-traces-endpoint {"default": "localhost:4317"}
--page-size {"type": "int"}
--pdmux-config-path
--piecewise-cuda-graph-compiler {"choices": ["eager", "inductor"], "default": "eager"}
--piecewise-cuda-graph-max-tokens {"type": "int"}
--piecewise-cuda-graph-tokens {"type": "int", "nargs": "+"}
--pipeline-parallel-size {"aliases": ["--pp-size"], "type": "int", "default": 1}
--port {"type": "int", "default": 30000}
--pp-async-batch-depth {"type": "int", "default": 0}
--pp-max-micro-batch-size {"type": "int"}
--preferred-sampling-params {"type": "json.loads"}
--prefill-attention-backend {"choices": ["triton", "torch_native", "flex_attention", "nsa", "cutlass_mla", "fa3",
    "fa4", "flashinfer", "flashmla", "trtllm_mla", "trtllm_mha", "dual_chunk_flash_attn", "aiter", "wave",
    "intel_amx", "ascend", "intel_xpu"]}
--prefill-delayer-forward-passes-buckets {"type": "float", "nargs": "+"}
--prefill-delayer-max-delay-passes {"type": "int", "default": 30}
--prefill-delayer-token-usage-low-watermark {"type": "float"}
--prefill-delayer-wait-seconds-buckets {"type": "float", "nargs": "+"}
--prefill-max-requests {"type": "int"}
--prefill-round-robin-balance {"action": "DeprecatedAction", "deprecated": true}
--priority-scheduling-preemption-threshold {"type": "int", "default": 10}
--prompt-tokens-buckets {"nargs": "+"}
--quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin", "awq_marlin", "bitsandbytes",
    "gguf", "modelopt", "modelopt_fp8", "modelopt_fp4", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "qoq",
    "w4afp8", "mxfp4", "auto-round", "compressed-tensors", "modelslim", "quark_int4fp8_moe"]}
--quantization-param-path {"type": "nullable_str"}
--quantize-and-serve {"type": "bool", "default": false, "action": "store_true"}
--radix-eviction-policy {"choices": ["lru", "lfu"], "default": "lru"}
--random-seed {"type": "int"}
--reasoning-parser {"choices": ["deepseek-r1", "deepseek-v3", "glm45", "gpt-oss", "kimi", "kimi_k2", "qwen3",
    "qwen3-thinking", "minimax", "minimax-append-think", "step3", "step3p5", "nano_v3", "interns1"]}
--remote-instance-weight-loader-backend {"choices": ["transfer_engine", "nccl"], "default": "nccl"}
--remote-instance-weight-loader-seed-instance-ip
--remote-instance-weight-loader-seed-instance-service-port {"type": "int"}
--remote-instance-weight-loader-send-weights-group-ports {"type": "json_list_type"}
--remote-instance-weight-loader-start-seed-via-transfer-engine {"type": "bool", "default": false, "action":
    "store_true"}
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
--skip-server-warmup {"type": "bool", "default": false, "action": "store_true"}
--skip-tokenizer-init {"type": "bool", "default": false, "action": "store_true"}
--sleep-on-idle {"type": "bool", "default": false, "action": "store_true"}
--sm-group-num {"type": "int", "default": 8}
--soft-watchdog-timeout {"type": "float"}
--speculative-accept-threshold-acc {"type": "float", "default": 1.0}
--speculative-accept-threshold-single {"type": "float", "default": 1.0}
--speculative-algorithm {"choices": ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"]}
--speculative-attention-mode {"choices": ["prefill", "decode"], "default": "prefill"}
--speculative-draft-attention-backend
--speculative-draft-load-format {"choices": ["auto", "pt", "safetensors", "npcache", "dummy", "sharded_state",
    "gguf", "bitsandbytes", "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors", "private"]}
--speculative-draft-model-path {"aliases": ["--speculative-draft-model"]}
--speculative-draft-model-quantization {"choices": ["awq", "fp8", "mxfp8", "gptq", "marlin", "gptq_marlin",
    "awq_marlin", "bitsandbytes", "gguf", "modelopt", "modelopt_fp8", "modelopt_fp4", "petit_nvfp4", "w8a8_int8",
    "w8a8_fp8", "moe_wna16", "qoq", "w4afp8", "mxfp4", "auto-round", "compressed-tensors", "modelslim",
    "quark_int4fp8_moe", "unquant"]}
--speculative-draft-model-revision
--speculative-eagle-topk {"type": "int"}
--speculative-moe-a2a-backend {"choices": ["none", "deepep", "mooncake", "mori", "ascend_fuseep", "flashinfer"]}
--speculative-moe-runner-backend {"choices": ["auto", "deep_gemm", "triton", "triton_kernel", "flashinfer_trtllm",
    "flashinfer_cutlass", "flashinfer_mxfp4", "flashinfer_cutedsl", "cutlass"]}
--speculative-ngram-branch-length {"type": "int", "default": 18}
--speculative-ngram-capacity {"type": "int", "default": 10000000}
--speculative-ngram-match-type {"choices": ["BFS", "PROB"], "default": "BFS"}
--speculative-ngram-max-bfs-breadth {"type": "int", "default": 10}
--speculative-ngram-max-match-window-size {"type": "int", "default": 12}
--speculative-ngram-min-bfs-breadth {"type": "int", "default": 1}
--speculative-ngram-min-match-window-size {"type": "int", "default": 1}
--speculative-num-draft-tokens {"type": "int"}
--speculative-num-steps {"type": "int"}
--speculative-token-map
--stream-interval {"type": "int", "default": 1}
--stream-output {"type": "bool", "default": false, "action": "store_true"}
--swa-full-tokens-ratio {"type": "float", "default": 0.8}
--tbo-token-distribution-threshold {"type": "float", "default": 0.48}
--tensor-parallel-size {"aliases": ["--tp-size"], "type": "int", "default": 1}
--tokenizer-metrics-allowed-custom-labels {"nargs": "+"}
--tokenizer-metrics-custom-labels-header {"default": "x-custom-labels"}
--tokenizer-mode {"choices": ["auto", "slow"], "default": "auto"}
--tokenizer-path
--tokenizer-worker-num {"type": "int", "default": 1}
--tool-call-parser {"choices": ["deepseekv3", "deepseekv31", "deepseekv32", "glm", "glm45", "glm47", "gpt-oss",
    "kimi_k2", "lfm2", "llama3", "mimo", "mistral", "pythonic", "qwen", "qwen25", "qwen3_coder", "step3", "step3p5",
    "minimax-m2", "trinity", "interns1", "hermes", "gigachat3"]}
--tool-server
--torch-compile-max-bs {"type": "int", "default": 32}
--torchao-config {"default": ""}
--triton-attention-num-kv-splits {"type": "int", "default": 8}
--triton-attention-reduce-in-fp32 {"type": "bool", "default": false, "action": "store_true"}
--triton-attention-split-tile-size {"type": "int"}
--trust-remote-code {"type": "bool", "default": false, "action": "store_true"}
--uvicorn-access-log-exclude-prefixes {"nargs": "*", "default": []}
--warmups
--watchdog-timeout {"type": "float", "default": 300}
--weight-loader-disable-mmap {"type": "bool", "default": false, "action": "store_true"}
--weight-version {"default": "default"}
"""
