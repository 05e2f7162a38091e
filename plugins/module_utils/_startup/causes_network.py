# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Causes between processes: ports, rendezvous, NCCL, RDMA, the warm-up request."""

from __future__ import annotations

from .cause import Cause
from .cause import pattern as p
from .cause import remedy as r

PORTS = (
    Cause(
        id="port_in_use",
        meaning="A port that the server needs is taken.",
        message="Port {port} is taken by another process.",
        patterns=(
            p(
                r"error while attempting to bind on address \('(?P<host>[^']{0,60})', "
                r"(?P<port>\d{1,5})[^)]{0,20}\): (?:\[errno \d+\] )?address already in use"
            ),
            p(r"ZMQError: Address already in use(?: \(addr='?(?P<address>[^)'\n]{1,100}))?"),
            p(
                r"failed to (?:listen|bind)[^\n]{0,120}port: (?P<port>\d{1,5})[^\n]{0,120}(?:EADDRINUSE|"
                r"address already in use)"
            ),
            p(r"EADDRINUSE[^\n]{0,120}"),
            p(r"Bind for (?P<host>\S{1,60}):(?P<port>\d{1,5}) failed: port is already allocated"),  # Docker
            p(
                r"[Pp]ort (?P<port>\d{1,5}) (?:is )?(?:not available|already in use|in use|is occupied|is already)",
                kind="exception",
            ),
            p(
                r"OSError: \[Errno 98\] Address already in use|RuntimeError: .{0,60}[Pp]orts? "
                r".{0,40}(?:in use|not available|occupied)"
            ),
        ),
        misleading=(
            'it comes after the whole model was loaded and after "Application startup complete."',
            "where the port belongs to another SGLang, the new server's warm-up talks to that one and "
            'prints "fired up" before it dies',
        ),
        remedies=(
            r("free_port", "Stop the process that holds the port.", host_action="stop the holder of the port"),
            r(
                "other_port",
                "Choose another --port (or --nccl-port, --dist-init-addr, kv-events port: whichever is named).",
                {"port": "<a free port>"},
            ),
        ),
        not_remedies=("Options for memory.", "Waiting: the warm-up goes on for two minutes and then fails."),
        retryable=True,
        examples=(
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use",
        ),
        tier=3,
    ),
)

ROWS = (
    Cause(
        id="rendezvous_failed",
        meaning="The ranks or nodes did not find each other in time.",
        message="The ranks did not find each other in time.",
        patterns=(
            p(r"Timeout waiting for key: \S{1,80}|store->get\('\d{1,6}'\) got error"),
            p(r"DistStoreError"),
            p(r"wait timeout after (?P<ms>\d+)ms"),
            p(
                r"Timed out after (?P<seconds>\d+) seconds waiting for clients(?:\. (?P<joined>\d+/\d+) "
                r"clients joined)?"
            ),
            p(
                r"(?:DistNetworkError|The client socket has (?:timed out|failed to connect))[^\n]{0,200}",
                kind="exception",
            ),
            p(r"waitForInput: [^\n]{0,200}timed out after (?P<ms>\d+)ms", tier=1),
            p(r"Gloo connectFullMesh failed|Unable to resolve hostname|makeDeviceForHostname|makeDeviceForInterface"),
            p(r"RendezvousConnectionError|RendezvousTimeoutError"),
            p(
                r"socket\.gaierror|Name or service not known|OSError: \[Errno 11[0-3]\]",
                kind="exception",
                frames=r"torch/distributed|parallel_state|network",
            ),
        ),
        misleading=("half an hour of silence before it",),
        remedies=(
            r(
                "addresses",
                "Name the right addresses and interfaces (SGLANG_HOST_IP, GLOO_SOCKET_IFNAME, "
                "NCCL_SOCKET_IFNAME, IPv4), the same --dist-init-addr on each node, and open the ports "
                "between the nodes.",
                host_action="network between the nodes",
            ),
        ),
        not_remedies=("A longer time limit alone.",),
        retryable=True,
        examples=(
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/4 clients joined.",
        ),
        tier=3,
    ),
    Cause(
        id="rendezvous_hang",
        meaning="The ranks or nodes do not find each other; no time limit has passed yet.",
        message="The ranks do not find each other: rank {rank} is not connected to {missing}.",
        patterns=(
            p(r"\[Gloo\] Rank (?P<rank>\d+) is NOT connected to: \[(?P<missing>[\d, ]{1,200})\]"),
            p(r"TCP client failed to connect/validate to host (?P<missing>[\w.:\[\]-]{1,80}) - retrying"),
        ),
        misleading=("Gloo's lines have no time",),
        remedies=(
            r(
                "addresses",
                "Name the right addresses and interfaces (SGLANG_HOST_IP, GLOO_SOCKET_IFNAME, "
                "NCCL_SOCKET_IFNAME), and look whether every node was started.",
                host_action="network between the nodes",
            ),
        ),
        retryable=True,
        examples=("[Gloo] Rank 8 is NOT connected to: [1]",),
        tier=2,
    ),
    Cause(
        id="nccl_timeout",
        meaning="A collective operation did not finish in time.",
        message="A collective operation of NCCL did not finish in time.",
        patterns=(
            p(r"Watchdog caught collective operation timeout(?:.{0,200}Timeout\(ms\)=(?P<ms>\d+))?"),
            p(r"Some NCCL operations have failed or timed out"),
            p(r"Process group watchdog thread terminated with exception"),
        ),
        misleading=("one slow rank is enough, for example one that loads from slower storage",),
        remedies=(
            r(
                "network",
                "Check network and firewall between the ranks and give all of them equally fast storage.",
                host_action="network between the ranks",
            ),
            r("longer", "Raise --dist-timeout where a rank is only slow.", {"dist_timeout": 3600}),
        ),
        not_remedies=("Lowering --mem-fraction-static.",),
        retryable=True,
        examples=(
            "what():  [PG ID 0 Rank 15] Process group watchdog thread terminated with exception: [Rank "
            "15] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, "
            "Timeout(ms)=600000)",
        ),
        tier=2,
    ),
    Cause(
        id="rdma_transport",
        meaning="The RDMA transport (Mooncake, NIXL, NVSHMEM, DeepEP) does not work.",
        message="The RDMA transport does not work: {problem}.",
        patterns=(
            p(
                r"(?P<problem>GID is NULL[^\n]{0,80}|Failed to open device[^\n]{0,80}|Memory region not "
                r"registered[^\n]{0,80})"
            ),
            p(r"(?P<problem>nvshmem\w{0,60}[^\n]{0,200})", kind="exception"),
            p(
                r"(?P<problem>(?:rdma_\w{1,40}|worker_pool|transfer_engine\w{0,40}|ib_\w{1,30}|"
                r"ibgda)\.(?:cpp|cc|cu|h):\d{1,5}[^\n]{0,200})"
            ),
            p(
                r"(?P<problem>(?:nvshmem|NVSHMEM)[^\n]{0,160}(?:fail|abort|ERROR|error|non-zero status)"
                r"[^\n]{0,80})"
            ),
            p(r"transfer_\w{1,40}\.(?:cpp|cc):\d{1,5}\] (?P<problem>[^\n]{0,60}[Ff]ail[^\n]{0,160})"),
            p(
                r"(?P<problem>(?:Mooncake|mooncake|NIXL|nixl)[^\n]{0,120}(?:fail|error|not found|unable)[^\n]{0,120})",
                kind="exception",
            ),
            p(r"(?P<problem>NIXL_ERR_\w{1,40})"),
            p(r"(?P<problem>No available RDMA|ibv_\w{1,40}[^\n]{0,80}(?:fail|error)[^\n]{0,40})"),
            p(
                r"(?P<problem>(?:DeepEP|\bdeep_ep\.(?:cu|cpp|hpp):)[^\n]{0,120}|"
                r"Assertion error[^\n]{0,200}(?:internode|nvshmem|rdma)[^\n]{0,100})",
                kind="exception",
            ),
        ),
        misleading=("its log lines begin like E0529",),
        remedies=(
            r(
                "rdma",
                "Check device names, GID index and peer memory module (ibv_devinfo, nvidia-peermem), or use TCP.",
                host_action="RDMA devices of the host",
            ),
        ),
        examples=(
            "E0529 23:23:23.432950 69588 rdma_transport.cpp:323] Memory region not registered by any "
            "active device(s): 0x7c1cda002800",
        ),
        tier=3,
    ),
    Cause(
        id="nccl_error",
        meaning="A call of NCCL failed.",
        message="NCCL failed: {problem}.",
        patterns=(
            p(
                r"NCCL [Ee]rror(?: \d{1,2}| in: [^\n]{0,160}?)?:? (?P<problem>(?:unhandled|invalid|internal|remote|"
                r"system|unknown)[^\n(,]{0,60})"
            ),
            p(
                r"(?P<problem>ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|"
                r"ncclInvalidArgument|ncclRemoteError)"
            ),
            p(r"(?P<problem>hipIpcGetMemHandle[^\n]{0,80})"),
            p(r"DistBackendError: (?P<problem>[^\n]{1,200})"),
            p(r"(?P<problem>(?:HCCL|RCCL|MCCL|XCCL) (?:error|function error)[^\n]{0,120})"),
            p(
                r"NCCL WARN (?P<problem>(?:Cuda failure|Call to|Error|Failed|Could not|NET/IB|[^\n]{1,100}"
                r"(?:failed|error|abort|mismatch))[^\n]{0,160})"
            ),
        ),
        misleading=("the reason stands only where NCCL_DEBUG=INFO is set",),
        remedies=(
            r(
                "debug",
                "Start once with NCCL_DEBUG=INFO, it prints the reason.",
                host_action="environment NCCL_DEBUG=INFO",
            ),
            r(
                "shm",
                "Look at /dev/shm first, then at the interface (NCCL_SOCKET_IFNAME) and InfiniBand "
                "(NCCL_IB_DISABLE=1, GID index).",
                host_action="larger /dev/shm",
            ),
        ),
        not_remedies=("Options for memory.",),
        examples=("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",),
        tier=2,
    ),
    Cause(
        id="warmup_timeout",
        meaning="The first request took longer than SGLang waits.",
        message="The warm-up request was not answered within {seconds} s.",
        patterns=(
            p(r"Read timed out\. \(read timeout=(?P<seconds>\d+)\)"),
            p(r"(?:ReadTimeout|TimeoutError|ReadTimeoutError)", frames=r"_?wait_and_warmup|_execute_server_warmup"),
        ),
        phases=("warmup", "http", "graph_capture", "runtime"),
        remedies=(
            r(
                "precompile",
                "Compile the kernels before (python -m sglang.compile_deep_gemm), or start with "
                "--skip-server-warmup and warm up by hand.",
                {"skip_server_warmup": True},
            ),
            r("wait", "Start again: what was compiled is kept."),
        ),
        retryable=True,
        examples=(
            "[2026-01-01 10:00:00] INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to "
            "quit)\nurllib3.exceptions.ReadTimeoutError: HTTPConnectionPool(host='0.0.0.0', port=30000): "
            "Read timed out. (read timeout=600)",
        ),
        tier=2,
    ),
    Cause(
        id="warmup_request_failed",
        meaning="The warm-up request got a wrong answer.",
        message="SGLang's own warm-up request got a wrong answer (HTTP {status}).",
        patterns=(
            p(r"res=<Response \[(?P<status>\d{3})\]>"),
            p(
                r"AssertionError(?P<status>)",
                frames=r"_?wait_and_warmup|_execute_server_warmup|execute_server_warmup|warmup_request",
            ),
            p(
                r"(?:ConnectionError|JSONDecodeError|ProxyError|NewConnectionError|InvalidURL|"
                r"InvalidProxyURL|MaxRetryError|LocationParseError|ChunkedEncodingError|"
                r"HTTPError)(?P<status>)",
                frames=r"_?wait_and_warmup|_execute_server_warmup|execute_server_warmup|/requests/|/urllib3/",
                phases=("warmup", "http", "runtime"),
            ),
            p(r"Initialization failed\. warmup error:(?P<status>)"),
            p(
                r"^(?:requests\.exceptions\.)?(?:ConnectionError|ProxyError|InvalidURL): "
                r".{0,300}(?:/(?:get_)?model_info|/generate|/health)(?P<status>)"
            ),
        ),
        misleading=("uvicorn is up and the users' requests are answered", "the failure comes 120 s later"),
        remedies=(
            r(
                "no_proxy",
                "Keep the server's own requests from the proxy: no_proxy=127.0.0.1,localhost,0.0.0.0 in "
                "the unit's environment.",
                host_action="environment no_proxy=127.0.0.1,localhost,0.0.0.0",
            ),
            r("host", "Give --host an address of this host.", {"host": "127.0.0.1"}),
        ),
        not_remedies=("Options for memory.", "Another model."),
        examples=(
            "AssertionError: res=<Response [403]>, res.text='<html><head><title>403 Forbidden</title></head></html>'",
        ),
        tier=1,
    ),
    Cause(
        id="load_timeout",
        meaning="Loading took longer than a fixed limit (0.1.x).",
        message="Loading took longer than the fixed limit of this old version.",
        patterns=(p(r"TimeoutError: result expired"),),
        remedies=(r("faster_storage", "Put the weights on faster storage, or use a newer version."),),
        retryable=True,
        examples=("TimeoutError: result expired",),
        versions="0.1",
        tier=2,
    ),
    Cause(
        id="peer_rank_died",
        meaning="This log shows only the consequence of another rank's or node's death.",
        message="Another rank or node died; this log shows only the consequence.",
        patterns=(
            p(r"Connection closed by peer|Connection reset by peer|Connection closed by (?:remote|localRank)"),
            p(
                r"TP rank (?P<rank>\d+) could finish the model loading, but there are other ranks that "
                r"didn't finish loading"
            ),
            p(r"other ranks that didn't finish loading"),
            p(r"gloo/\S{1,120}\] Timed out waiting \d+ms for (?:send|recv) operation to complete"),
            p(r"TCPStore.{0,120}(?:recvValue|Broken pipe|reset)|Failed to recv, got 0 bytes|recvValue failed"),
        ),
        misleading=("its own hints (graphs, memory) are wrong",),
        remedies=(
            r(
                "other_log",
                "Read the log of the other rank or node: the cause is there.",
                host_action="log_diagnosis_info on the other node",
            ),
        ),
        not_remedies=("Following the hints that this log prints.",),
        retryable=True,
        examples=(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by "
            "peer [192.0.2.1]:45492",
        ),
        tier=1,
        versions="all; the wait for slower ranks ends after 300 s in 0.4.6 to 0.5.5 and after 480 s from 0.5.7 on",
    ),
)
