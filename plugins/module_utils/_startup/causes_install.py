# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes in the installation: packages, binaries, drivers, compilers."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

COMPILERS = (
    Cause(
        id="jit_toolchain",
        meaning="A compiler that kernels are built with at start is missing or does not fit.",
        message="Kernels are compiled at start and the compiler is missing or does not fit: {problem}.",
        patterns=(
            p(r"(?P<problem>Ninja is required[^\n]{0,80})"),
            p(
                r"(?P<problem>No such file or directory: '(?:[^'\n]{0,200}/)?(?:ninja|nvcc|gcc|g\+\+|cc|"
                r"c\+\+|clang|cuobjdump|ptxas|hipcc|lscpu)')"
            ),
            p(r"(?P<problem>(?:Failed to find|Could not find|No) (?:a |any )?(?:working )?C\+?\+? compiler)"),
            p(r"(?P<problem>nvcc fatal[^\n]{0,160})"),
            p(r"(?P<problem>fatal error: [\w/.+-]{1,120}: No such file or directory)"),
            p(r"(?P<problem>(?:nvcc|ninja|gcc|g\+\+|c\+\+|hipcc|cicc|ptxas): (?:command )?not found)"),
            p(r"FAILED: \[code=127\](?P<problem>[^\n]{0,120})"),
            p(r"(?P<problem>(?:error: |^\s{0,8})#error \"[^\n]{0,160}|error: #error[^\n]{0,160})"),
            p(r"^\S{1,300}\(?:?\d{1,6}\)?(?::\d{1,5})?: error: (?P<problem>[^\n]{1,200})"),
            p(
                r"(?P<problem>CUDA_HOME (?:environment variable )?is not set|Could not find (?:nvcc|"
                r"CUDA)[^\n]{0,80}|Cannot find CUDA_HOME)"
            ),
            p(
                r"(?P<problem>(?:requires?|need) (?:nvcc|CUDA|gcc|GCC) (?:version )?>?=? ?\d[^\n]{0,100})",
                frames=r"jit|cpp_ext|compil",
            ),
            p(
                r"CalledProcessError: (?P<problem>Command '?\[?'?(?:[^'\n ]{0,200}/)?"
                r"(?:ninja|nvcc|hipcc|gcc|g\+\+|c\+\+|clang\+?\+?|cc)\b[^\n]{0,200})",
            ),
            p(
                r"(?P<problem>(?:/ld|\bld|collect2)(?:\.\w{2,5})?: (?:error: )?"
                r"(?:cannot find|unable to find)[^\n]{1,100})"
            ),
            p(r"(?P<problem>Ninja build failed)"),
            p(r"Assertion error \(\S{0,120}jit/\S{1,80}\): (?P<problem>(?![^\n]{0,80}CUDA_SUCCESS)[^\n]{1,160})"),
            p(r"(?P<problem>Error compiling objects for extension|Error building extension '[^'\n]{1,120}')"),
        ),
        misleading=("hundreds of compiler lines after the exception", 'the "Possible solutions" are wrong here'),
        remedies=(
            r(
                "toolkit",
                "Install the CUDA toolkit, a C++ compiler and ninja that fit torch, in the PATH of the "
                "service, and set CUDA_HOME.",
                host_action="install the toolchain",
            ),
            r("precompiled", "Use a backend with compiled kernels, or an image that holds the toolkit."),
        ),
        not_remedies=("--disable-cuda-graph: the kernel is needed anyway.", "Lowering --mem-fraction-static."),
        examples=(
            "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'",
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        ),
        tier=3,
    ),
)

_GPU_PACKAGES = r"sgl_kernel|sgl-kernel|common_ops|flashinfer|flash_attn|deep_gemm|vllm\._C|fbgemm|torchao"

ROWS = (
    Cause(
        id="driver_too_old",
        meaning="The NVIDIA driver is older than the CUDA runtime of this installation.",
        message="The NVIDIA driver is too old for the CUDA version that this SGLang was built with.",
        patterns=(
            p(r"driver on your system is too old(?: \(found version (?P<found>\d+)\))?", kind="exception"),
            p(
                r"Error 80[34]: |CUDA_ERROR_(?:SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED)|forward "
                r"compatibility was attempted"
            ),
            p(r"undefined symbol: (?P<symbol>cu[A-Z]\w{2,60})"),
            p(r"unsatisfied condition: (?:cuda|driver) ?>="),  # NVIDIA's container runtime
            p(r"CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver"),
            p(r"the provided PTX was compiled with an unsupported toolchain"),
        ),
        misleading=("cu* symbols belong to libcuda: the driver, not the wheel", '"too old" can be a harmless warning'),
        remedies=(
            r("newer_driver", "Install a newer driver (CUDA 13 needs 580 or newer).", host_action="upgrade the driver"),
            r("older_image", "Use an image or wheels for the CUDA version of this driver."),
        ),
        not_remedies=("Reinstalling sgl-kernel.",),
        examples=("ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: cuGreenCtxDestroy",),
        tier=3,
    ),
    Cause(
        id="no_gpu",
        meaning="The process sees no usable GPU.",
        message="The process sees no usable GPU.",
        patterns=(
            p(r"could not select device driver|nvidia-container-cli: (?:initialization|device|detection|mount) error"),
            p(r"Unexpected error from cudaGetDeviceCount\(\)(?![^\n]{0,300}(?:ordinal|out of memory|Error 80[34]))"),
            p(r"No accelerator \([^)\n]{0,120}\)(?: or platform plugin)? is available"),
            p(
                r"No (?:CUDA|HIP|NVIDIA) GPUs are available|Found no NVIDIA driver|no CUDA-capable "
                r"device is detected|no ROCm-capable device"
            ),
            p(r"Error 802: system not yet initialized|CUDA_ERROR_NOT_INITIALIZED|cudaErrorSystemNotReady"),
            p(r"Torch not compiled with CUDA enabled|has no attribute '_cuda_(?:setDevice|getDeviceCount|init)'"),
            p(
                r"(?:nvidia|rocm|hl|npu|xpu|mthreads)-smi not found\. Ensure|"
                r"No (?:CUDA|HIP) devices? (?:was |were )?(?:found|available)"
            ),
            p(
                r"Cannot find a (?:GPU|device)|No GPU (?:found|detected|available)|0 active drivers \(\[\]\)",
                kind="exception",
            ),
            # what torch says of a driver that is there in part: no nvidia-uvm in the container, a card that fell off
            p(r"CUDA unknown error - this may be due to|Failed to infer device type", kind="exception"),
            p(r"NVMLError_\w{1,40}|NVML Shared Library Not Found|Failed to initialize NVML", kind="exception"),
        ),
        misleading=("the list in the parentheses grows with the version",),
        remedies=(
            r(
                "give_gpu",
                "Give the container or service the GPU (devices, driver libraries), check "
                "CUDA_VISIBLE_DEVICES, and on NVSwitch systems the fabric manager.",
                host_action="doctor",
            ),
        ),
        not_remedies=("Reinstalling the driver before looking whether nvidia-smi works here.",),
        examples=("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin is available.",),
        tier=3,
    ),
    Cause(
        id="gpu_count_insufficient",
        meaning="Fewer GPUs are visible than ranks were asked for on this node.",
        message="Fewer GPUs are visible than this server asks for.",
        patterns=(
            p(r"invalid device ordinal|hipErrorInvalidDevice\b|Invalid device ordinal|CUDA_ERROR_INVALID_DEVICE\b"),
            p(
                r"(?:AssertionError|ValueError|RuntimeError): .{0,120}(?:tp_size|tp size|world size|"
                r"GPUs?).{0,60}(?:exceeds?|larger than|greater than|more than|but only|only) "
                r".{0,60}(?:GPUs?|devices?)"
            ),
            p(r"Invalid device id|device >= 0 && device < num_gpus"),
        ),
        misleading=("the text advises CUDA_LAUNCH_BLOCKING",),
        remedies=(
            r(
                "fewer_ranks",
                "Use at most as many ranks per node as GPUs are visible (tp x pp / nodes), or make more GPUs visible.",
                {"tp_size": "<number of visible GPUs>"},
            ),
        ),
        not_remedies=("CUDA_LAUNCH_BLOCKING=1.",),
        examples=("RuntimeError: CUDA error: invalid device ordinal",),
        tier=3,
    ),
    Cause(
        id="kernel_abi_mismatch",
        meaning="A compiled kernel package does not fit this torch or CUDA.",
        message="A compiled package does not fit the installed torch or CUDA: {problem}.",
        patterns=(
            p(r"(?P<problem>Could not run '[\w:]{1,80}' with arguments from the '(?:CUDA|HIP)' backend)"),
            p(r"(?P<problem>undefined symbol: (?!cu[A-Z])\S{1,200})", kind="exception"),
            p(r"^\S{1,300}\.so[\w.]{0,20}: (?P<problem>undefined symbol: (?!cu[A-Z])\S{1,200})"),
            p(r"- (?:ImportError|OSError): (?P<problem>[^\n]{1,300})", frames=r"sgl_kernel"),
            p(r"(?P<problem>Could not load any common_ops library)"),
            p(
                r"(?P<problem>\w{1,80}\(\) takes (?:from )?\d+ (?:to \d+ )?positional arguments? but \d+ were given)",
                frames=r"moe|attention|layers|kernel|quantization",
                phases=("graph_capture", "warmup", "compile", "load_weights", "kv_cache"),
            ),
            p(
                r"AttributeError: '_OpNamespace' '(?P<problem>\w{1,60}' object has no attribute '(?!awq|"
                r"gptq|marlin|fp8|int8|ggml|bnb)\w{1,80})'"
            ),
            p(r"(?P<problem>\w{1,60}::\w{1,80}\(\) (?:expected at most|is missing value|Expected)[^\n]{0,120})"),
            p(
                r"(?P<problem>cannot import name '\w{1,80}' from '(?:sgl_kernel|flashinfer|"
                r"deep_gemm)[\w.]{0,60}'[^\n]{0,120})"
            ),
            p(
                r"(?P<problem>(?:sgl_kernel|torch|flashinfer)[^\n]{0,80}compiled (?:with|against|for)[^\n]{0,120})",
                kind="exception",
            ),
            p(r"(?P<problem>GLIBC(?:XX)?_[\d.]+' not found[^\n]{0,80})"),
        ),
        misleading=(
            "in the list of attempts the last one is not the cause",
            'torchao prints a harmless line with "undefined symbol"',
        ),
        remedies=(
            r(
                "matching_pair",
                "Install the sgl-kernel and flashinfer that this SGLang pins, for the CUDA version of "
                "the installed torch.",
                host_action="reinstall the runtime from its lock",
            ),
        ),
        not_remedies=("Building from source.", "Installing vllm, which pulls another torch."),
        examples=(
            "ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c108ListType3getE",
            "TypeError: at::foo::bar() expected at most 5 argument(s) but received 7 argument(s).",
        ),
        tier=3,
    ),
    Cause(
        id="missing_shared_lib",
        meaning="A shared library cannot be found.",
        message="The shared library {library} cannot be found.",
        patterns=(
            p(r"(?P<library>lib[\w.+-]{1,80}\.so[\w.]{0,20}): cannot open shared object file"),
            p(
                r"(?:OSError|ImportError|RuntimeError).{0,80}(?P<library>lib[\w.+-]{1,60}\.so[\w.]{0,20})"
                r".{0,20}(?:not found|cannot be found)"
            ),
            p(r"(?P<library>lib[\w.+-]{1,60}\.so[\w.]{0,20}) (?:cannot|can't|could not) (?:be )?found"),
            p(
                r"(?:Unable to load|Could not load library|Could not find) (?:any of "
                r"\{)?(?P<library>lib\w{1,40}\.so[\w.]{0,20})"
            ),
        ),
        misleading=('"Failed to import from custom_ar with ImportError(libcuda.so.1)" is a warning only',),
        remedies=(
            r(
                "library",
                "Give the container the driver's libraries (libcuda: container toolkit, --nv, mounts), "
                "or install the package that holds the library for this CUDA version.",
                host_action="install or mount the library",
            ),
        ),
        not_remedies=("A link to a library of another version.",),
        examples=("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",),
        tier=3,
    ),
    Cause(
        id="broken_install",
        meaning="SGLang itself is shadowed or only partly installed.",
        message="The sglang package is shadowed by another folder or only partly installed.",
        patterns=(
            p(
                r"cannot import name '\w{1,80}' from (?:partially initialized module "
                r")?'sglang(?:\.\w{1,60})*' \((?:unknown location|most likely)"
            ),
            p(r"TypeError: expected str, bytes or os\.PathLike object, not NoneType", frames=r"sglang"),
            p(r"No module named '?sglang(?:\.\w{1,60}){0,6}'?(?:$|[;) ])"),
            p(r"AttributeError: (?:partially initialized )?module 'sglang' has no attribute"),
            p(r"PackageNotFoundError.{0,60}sglang|No package metadata was found for sglang"),
            p(r"(?:can't open file|\bsglang: command not found|python\d?(?:\.\d+)?: command not found)", tier=1),
            p(r"Failed at step EXEC spawning [^\n]{1,300}: No such file or directory"),  # systemd
            p(r"cannot execute(?::| binary)|exec format error|Exec format error|bad interpreter"),
        ),
        remedies=(
            r(
                "reinstall",
                "Start outside of a source tree, and install SGLang again into a fresh venv.",
                host_action="reinstall the runtime from its lock",
            ),
        ),
        examples=(
            "ImportError: cannot import name 'ServerArgs' from 'sglang' (unknown location)",
            "/opt/llmhost/runtime/bin/python: No module named sglang",
        ),
        tier=3,
    ),
    Cause(
        id="package_version_mismatch",
        meaning="A package is there, but not in the version that this SGLang needs.",
        message="A package has the wrong version for this SGLang: {problem}.",
        patterns=(
            p(
                r"(?P<problem>\S{1,60} is installed with version \S{1,60}, which is less than the "
                r"minimum required version \S{1,60}?)[.,]? "
            ),
            p(r"(?P<problem>\S{1,60} with minimum required version \S{1,60} is not installed)"),
            p(r"(?P<problem>is already used by a Transformers (?:model|config)[^\n]{0,60})"),
            p(r"(?P<problem>'[\w.]{1,80}' is already used by a \w{1,40})"),
            p(
                r"(?P<problem>cannot import name '\w{1,80}' from (?:partially initialized module "
                r")?'(?!sglang'|sgl_kernel|deep_gemm)[\w.]{1,160}'[^\n]{0,200})"
            ),
            p(
                r"No module named '?(?P<problem>(?:vllm|transformers|torch|flashinfer|outlines|triton|"
                r"xgrammar|pydantic|huggingface_hub|torchvision|deep_gemm|sgl_kernel|compressed_tensors|"
                r"numpy|torchao|fastapi|starlette|cutlass|aiter|torch_npu|modelscope|tokenizers|"
                r"flash_attn|deep_ep|mooncake|kernels|scipy|uvicorn|prometheus_client|quack|tilelang)\.[\w.]{1,120})"
            ),
            p(
                r"(?P<problem>\S{1,100}\(\) (?:got an unexpected keyword argument|missing \d+ required "
                r"(?:positional|keyword-only) arguments?)[^\n]{0,120})",
                frames=r"vllm|transformers|flashinfer|site-packages|dist-packages|quantization|layers",
                phases=("import", "args", "init_distributed", "load_weights", "kv_cache"),
            ),
            p(
                r"(?P<problem>(?:requires?|needs?) (?:a )?(?:newer|older|different) version[^\n]{0,160})",
                kind="exception",
            ),
            p(
                r"(?P<problem>[\w-]{2,40} ?(?:>=|==|<=|<|>|!=) ?\d[\w.,<>=! ]{0,40} is required[^\n]{0,160})",
                kind="exception",
            ),
            p(r"(?P<problem>(?:DistributionNotFound|VersionConflict|ContextualVersionConflict)[^\n]{0,160})"),
            p(r"(?P<problem>(?:partially initialized )?module '(?!sglang)[\w.]{1,120}' has no attribute '\w{1,80}')"),
            p(r"(?P<problem>(?:AssertionError|RuntimeError)[^\n]{0,60})$", frames=r"/deep_gemm/", last=r"/deep_gemm/"),
            p(
                r"(?P<problem>numpy\.dtype size changed|A module that was compiled using NumPy 1[^\n]{0,80})",
                kind="exception",
            ),
            p(r"(?P<problem>numpy\.core\.multiarray failed to import|_ARRAY_API not found)", kind="exception"),
            p(r"(?P<problem>duplicate template name|operator torchvision::nms does not exist)"),
            p(
                r"(?P<problem>[^\n]{0,80}[Cc]ompatibility (?:[Ii]ssue|[Pp]roblem|[Ee]rror)[^\n]{0,120})",
                kind="exception",
            ),
            p(
                r"(?:ValueError|RuntimeError|ImportError): (?P<problem>(?:[Tt]ransformers|[Tt]orch|[Tt]riton|"
                r"[Ff]lash[Ii]nfer|vLLM|vllm|sgl-kernel|sglang-kernel|xgrammar) version [^\n]{0,160})"
            ),
        ),
        misleading=("ModuleNotFoundError of a submodule is a question of the version",),
        remedies=(
            r(
                "pinned",
                "Install exactly the versions that this SGLang pins, best into a fresh venv.",
                host_action="reinstall the runtime from its lock",
            ),
        ),
        not_remedies=('Installing the "missing" package: it is installed.',),
        examples=(
            "ImportError: cannot import name 'LossKwargs' from 'transformers.utils' "
            "(/x/transformers/utils/__init__.py)",
            "Exception: flashinfer_python is installed with version 0.2.1, which is less than the "
            "minimum required version 0.2.5. Please reinstall.",
        ),
        tier=2,
    ),
    Cause(
        id="import_missing_package",
        meaning="An optional package is needed and not installed.",
        message="The package {package} is needed and not installed.",
        patterns=(
            p(
                r"PackageNotFoundError: (?:No package metadata was found for )?(?P<package>(?!sglang)[\w-]{2,60})",
                tier=1,
            ),
            p(r"ModuleNotFoundError: No module named '(?P<package>[\w.]{1,120})'"),
            p(r"(?P<package>Form data requires \"python-multipart\")"),
            p(
                r"(?:requires some operators from|is required to|please install|Please install|need to "
                r"be installed|needs to be installed|[Pp]lease (?:first )?(?:run|use) .?pip3? install) "
                r"?(?P<package>[\w@/.:-]{0,80})",
                kind="exception",
            ),
            p(
                r"NameError: name '(?P<package>check_marlin_supported|\w{0,20}marlin\w{0,40}|ops|"
                r"vllm\w{0,40})' is not defined"
            ),
            p(r"(?P<package>[\w-]{2,40}) (?:is not installed|package is not installed)", kind="exception"),
            p(r"(?:ImportError|ModuleNotFoundError): (?P<package>[\w-]{2,40}) is required"),
            p(r"requires the following packages that were not found in your environment: (?P<package>[\w, -]{1,120})"),
            p(r"ImportError: (?:Please install|Using|The|To use) .{0,160}install"),
        ),
        misleading=('"Ignore import error" and "Failed to import from" are harmless',),
        remedies=(
            r(
                "install",
                "Install the package that the last real exception names, in the version that this SGLang pins.",
                host_action="install the package into the runtime's venv",
            ),
        ),
        not_remedies=("Installing vllm: it pulls another torch and breaks sgl-kernel.",),
        examples=("ModuleNotFoundError: No module named 'datasets'",),
        tier=2,
    ),
)
