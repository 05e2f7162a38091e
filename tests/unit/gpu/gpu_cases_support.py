# SPDX-License-Identifier: GPL-3.0-or-later
"""Situations that people reported, in our own words, and what is expected here. One test each, by id."""

from __future__ import annotations

# id: (where it was reported, what happened, what is expected)
CASES = {
    "gpu-01": (
        "sgl-project/sglang#23627",
        "After a batch job the schedulers of a data-parallel server ran on under PID 1 and kept 100 GB of each GPU.",
        "All are stopped, memory is back, changed.",
    ),
    "gpu-02": (
        "sgl-project/sglang#31645",
        "Schedulers had left the launcher's tree while it started, so ending the launcher reached none of them.",
        "They are stopped too; the launcher's end alone is no success.",
    ),
    "gpu-03": (
        "sgl-project/sglang#31281",
        "A killed scheduler stayed in the kernel's teardown for more than half a minute.",
        "It is waited for, one SIGKILL, success with the time.",
    ),
    "gpu-04": (
        "sgl-project/sglang#32829",
        "Two hundred gigabytes of pinned host memory: device memory came back 26 s after the processes were gone.",
        "Success only once memory is at the baseline.",
    ),
    "gpu-05": (
        "sgl-project/sglang#31871",
        "Memory was held for 40 s with nobody listed; a limit of 30 s was too short.",
        "Default limit succeeds; 30 s fails as pinned_teardown.",
    ),
    "gpu-06": (
        "sgl-project/sglang#31746",
        "A killed scheduler slept uninterruptibly for 20 s and was listed all the while.",
        "One SIGKILL, waiting goes on, success.",
    ),
    "gpu-07": (
        "sgl-project/sglang#36605",
        "Eight GPUs gave their memory back at different times after the schedulers had gone.",
        "All eight are waited for, each with its own time.",
    ),
    "gpu-08": (
        "sgl-project/sglang#36589",
        "The kill returned while the context was still held.",
        "No success above the baseline.",
    ),
    "gpu-09": (
        "sgl-project/sglang#39545",
        "A new server started while the dead one's memory was still charged and ran out of memory.",
        "PIDs gone and memory at the baseline, both.",
    ),
    "gpu-10": (
        "sgl-project/sglang#30110",
        "Two diffusion workers were left under PID 1; an idle card shows 4 MiB.",
        "Both are stopped, 4 MiB is clean.",
    ),
    "gpu-11": (
        "sgl-project/sglang#21486",
        "Schedulers died in an NCCL abort; the launcher kept them as zombies and still answered health checks.",
        "The launcher is stopped, the zombies go.",
    ),
    "gpu-12": (
        "sgl-project/sglang#22779",
        "What a killed server left in shared memory made the next one on the same port hang.",
        "A warning names the leftovers; nothing is deleted.",
    ),
    "gpu-13": (
        "ai-dynamo/dynamo#1889",
        "On a workstation with a desktop an interrupted server left its scheduler.",
        "Only the scheduler is stopped; the desktop's memory is the baseline.",
    ),
    "gpu-14": (
        "vllm-project/vllm#55510",
        "vLLM's workers were reparented to the shell that started them.",
        "Workers are stopped where match names them, the shell is not.",
    ),
    "gpu-15": (
        "vllm-project/vllm#34643",
        "vLLM's parent died; a worker and two small helper contexts stayed.",
        "All three are stopped.",
    ),
    "gpu-16": (
        "vllm-project/vllm#42017",
        "Memory after a crash with 300 GB of offload came back after a minute.",
        "Success after a long wait.",
    ),
    "gpu-17": (
        "vllm-project/vllm#37230",
        "Memory stopped falling above the baseline, and a gate took that for clean.",
        "Failure: a plateau is no baseline.",
    ),
    "gpu-18": (
        "ollama/ollama#5642",
        "SIGTERM to the parent would have ended its child in order; SIGKILL left it.",
        "The parent gets SIGTERM alone, the child ends without a signal.",
    ),
    "gpu-19": (
        "smg-project/smg#2464",
        "A decode server still mapped the memory of a prefill server that was gone.",
        "Failure ipc_peer that names it.",
    ),
    "gpu-20": (
        "LMCache/LMCache#4014",
        "A cache server held 112 GB of a dead client.",
        "Blocked, with its size; nothing is signalled.",
    ),
    "gpu-21": (
        "unslothai/unsloth#3331",
        "A worker spun in the driver and took no SIGKILL.",
        "Failure unkillable with state and wait channel; one SIGKILL.",
    ),
    "gpu-22": (
        "NVIDIA/open-gpu-kernel-modules#456",
        "The leader of a process was dead, a thread of it spun in the driver.",
        "Failure unkillable.",
    ),
    "gpu-23": (
        "NVIDIA/open-gpu-kernel-modules#1333",
        "Every NVML call hung for ever.",
        "driver_hung within the deadline.",
    ),
    "gpu-24": ("leptonai/gpud#117", "nvidia-smi hung for ever.", "driver_hung; no second one is started."),
    "gpu-25": (
        "NVIDIA/DCGM#263",
        "A card asked for a reset while everything else called it healthy.",
        "reset_required although its memory is free.",
    ),
    "gpu-26": (
        "Datura-ai/lium-io#1140",
        "After a hard kill a card stayed at 100 % with no process.",
        "Success with a warning.",
    ),
    "gpu-27": (
        "NVIDIA/gpu-operator#118",
        "A reset was refused because nvidia-persistenced held the card.",
        "It is never signalled, and nothing here resets.",
    ),
    "gpu-28": (
        "NVIDIA/NVSentinel#1690",
        "A reset needed persistence mode off, and left it off when it failed.",
        "No mode is changed, whatever happens.",
    ),
    "gpu-29": (
        "ComputeCanada/puppet-magic_castle#387",
        "No process at all, yet a reset was refused: the kernel's own display driver.",
        "The failure says that nvidia_drm can be what holds it.",
    ),
    "gpu-30": (
        "sgl-project/sglang#21331",
        "Containers that shared the host's PIDs: one cleaned by name and killed the servers of the others.",
        "Only the chosen GPU and the chosen container.",
    ),
    "gpu-31": (
        "sgl-project/sglang#21401",
        "A PID from nvidia-smi did not exist in the container.",
        "pid_invisible, no signal.",
    ),
    "gpu-32": (
        "sgl-project/sglang#2391",
        "A shared machine: the processes were somebody else's.",
        "Blocked, with the user; no signal.",
    ),
    "gpu-33": ("clearml/clearml#305", "A job on GPU 1 had the file of GPU 0 open.", "It stays when GPU 0 is cleaned."),
    "gpu-34": ("NVIDIA/dcgm-exporter#84", "Killing the DCGM exporter wedged the GPU.", "It stays."),
    "gpu-35": (
        "NVIDIA/deepops#1315",
        "A header word was taken for a PID.",
        "The answer is refused and names the word.",
    ),
    "gpu-36": ("NVIDIA/deepops#1403", "A clean-up by user killed login shells.", "They stay."),
    "gpu-37": (
        "openhpc/ohpc#1411",
        "A clean-up script killed the session that ran it.",
        "This task and its ancestors stay.",
    ),
    "gpu-38": (
        "vllm-project/vllm#6965",
        "pkill python took the monitoring along.",
        "A Python without GPU memory stays.",
    ),
    "gpu-39": (
        "radixark/miles_diffusion#165",
        "pkill -f matched the shell that ran it and missed the diffusion workers.",
        "The workers are stopped, the shell is not.",
    ),
    "gpu-40": ("wazuh/wazuh#38733", "A PID from an old record belonged to a daemon by then.", "It gets no signal."),
    "gpu-41": (
        "orbi-build/orbi#572",
        "Between SIGTERM and SIGKILL the PID was handed to somebody else.",
        "The second signal reaches nobody.",
    ),
    "gpu-42": (
        "kekzl/imp#1529",
        "A box that idles at 1675 MiB with a desktop was refused by a fixed limit.",
        "It is clean.",
    ),
    "gpu-43": (
        "XuehaiPan/nvitop#75",
        "An early R535 driver: PIDs such as 0 and 4294967295.",
        "struct_mismatch or right PIDs; no signal.",
    ),
    "gpu-44": ("gpuopenanalytics/pynvml#50", "With several processes PID and memory changed places.", "No signal."),
    "gpu-45": ("wookayin/gpustat#141", "An old call counted 308 MiB of reserved memory as used.", "It is clean."),
    "gpu-46": ("Cldfire/nvml-wrapper#57", "The same on an A100: 912 MB against 8 MB.", "It is clean."),
    "gpu-47": (
        "vllm-project/vllm#35313",
        "On a machine with one memory the page cache counted as GPU memory.",
        "Success when the processes are gone, with a warning.",
    ),
    "gpu-48": (
        "Syllo/nvtop#432",
        "Under WSL the memory of a process is not available.",
        "null, no crash; the device's memory decides.",
    ),
    "gpu-49": ("IDSIA/sacred#864", "'Insufficient Permissions' where a number should be.", "null with the reason."),
    "gpu-50": (
        "NVIDIA/nvidia-container-toolkit#842",
        "In a container the memory of a MIG parent is not permitted.",
        "That of its MIG devices is returned and used.",
    ),
    "gpu-51": ("influxdata/telegraf#16569", "A driver renamed elements of the XML.", "What is needed is still read."),
    "gpu-52": (
        "Project-HAMi/HAMi-core#112",
        "In a container the list had the right PIDs with 0 MiB.",
        "0 is not known there; the device's memory decides.",
    ),
    "gpu-53": (
        "NVIDIA/nvidia-docker#1483",
        "An old driver told host PIDs to a container, where one existed by chance.",
        "No signal.",
    ),
    "gpu-54": (
        "NVIDIA/nvidia-docker#1460",
        "An empty table without its usual line.",
        "Memory in use by nobody is not clean.",
    ),
    "gpu-55": ("canonical/lxd#9755", "A container saw no processes, and the right memory.", "pid_invisible."),
    "gpu-56": ("lablup/backend.ai#83", "A kernel without NSpid.", "No crash, no mapping."),
    "gpu-57": ("qizhou000/VisEdit#5", "The driver listed a PID that did not exist, with 10 GB.", "leaked_context."),
    "gpu-58": ("Syllo/nvtop#70", "A zombie held the card.", "zombie_parent with the parent's name."),
    "gpu-59": (
        "apache/mxnet#4242",
        "A dead parent's memory stayed while a child of it lived.",
        "The child is stopped, memory is back.",
    ),
    "gpu-60": ("pytorch/pytorch#32575", "Killing a client of MPS hung the whole machine.", "mps_in_use, no SIGKILL."),
    "gpu-61": (
        "gpustack/gpustack#1633",
        "CUDA's order of mixed cards was not nvidia-smi's.",
        "UUIDs are returned, and a bare index is warned of.",
    ),
    "gpu-62": (
        "huggingface/optimum-benchmark#47",
        "NVML does not know CUDA_VISIBLE_DEVICES.",
        "The result is the same with it.",
    ),
    "gpu-63": (
        "lyulyul/shine-cluster#30",
        "An upgrade left library and module in different versions.",
        "version_mismatch with both; nothing is stopped.",
    ),
    "gpu-64": (
        "NVIDIA/nvidia-container-toolkit#48",
        "Containers lost their GPUs after a daemon-reload on the host.",
        "The failure says so.",
    ),
    "gpu-65": (
        "NVIDIA/deepops#1246",
        "A role's service restart cut containers off.",
        "No daemon-reload is ever run here.",
    ),
    "gpu-66": (
        "eugr/spark-vllm-docker#257",
        "A restart policy brought the failing server back 35 times.",
        "respawn within one poll, no second kill.",
    ),
}
