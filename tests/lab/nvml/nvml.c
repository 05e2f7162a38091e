/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * libnvidia-ml.so.1 of the simulated driver: the calls that nvidia-ml-py, gpustat and nvitop make, answered from a
 * text file. Written from the public shape of the interface; nothing of a real driver is in it.
 *
 * -DEARLY_R535 leaves out nvmlDeviceGetRunningProcessDetailList, as the first builds of R535 do, whose process
 * entries have 32 bytes ("procsize 32" in the state).
 */
#define _GNU_SOURCE
#include "state.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int result;
typedef void *device;
enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, VERSION_MISMATCH = 25
};
#define MIB(n) ((uint64_t)(n) << 20)
#define RECOVERY_FIELD 230

static const struct state *S;
static int initialised;

static void hang(double seconds) {
    do {
        struct timespec t = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        if (seconds > 0) nanosleep(&t, NULL);
        else pause();
    } while (seconds <= 0);
}

/* What the state says of a call: 0, or the code that it returns; it may also never return. */
static result ruled(const char *function, int gpu) {
    for (int i = 0; i < S->rules; i++) {
        const struct rule *r = &S->rule[i];
        if (strcmp(r->function, function) && strcmp(r->function, "all")) continue;
        if (r->hang) hang(r->seconds);
        else if (r->gpu < 0 || r->gpu == gpu) return r->code;
    }
    return OK;
}

/* A handle is 1 + the number of a GPU, or 1000 + that of a MIG device. */
static result open_device(const char *function, device handle, int *gpu, int *mig) {
    long value = (long)handle;
    if (!initialised) return UNINITIALIZED;
    if (!(S = state_read())) return DRIVER_NOT_LOADED;
    *mig = -1;
    if (value >= 1000 && value - 1000 < S->migs) *gpu = S->mig[*mig = value - 1000].gpu;
    else if (value >= 1 && value <= S->gpus) *gpu = value - 1;
    else return INVALID_ARGUMENT;
    if (S->gpu[*gpu].lost) return GPU_IS_LOST;
    return ruled(function, *gpu);
}
#define DEVICE                                                                                                         \
    int gpu, mig;                                                                                                      \
    result bad = open_device(__func__, handle, &gpu, &mig);                                                            \
    if (bad) return bad;                                                                                               \
    (void)mig
#define SYSTEM                                                                                                         \
    if (!initialised) return UNINITIALIZED;                                                                            \
    if (!(S = state_read())) return DRIVER_NOT_LOADED;                                                                 \
    result bad = ruled(__func__, -1);                                                                                  \
    if (bad) return bad

static result give(char *out, unsigned room, const char *text) {
    if (strlen(text) + 1 > room) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

int llmhost_sim_procsize(void) { return (S = state_read()) ? S->procsize : 24; }
int llmhost_sim_smi_goes_on(void) { return (S = state_read()) ? S->smi_goes_on : 0; }

/* --- start and end, the system ------------------------------------------------------------------------------- */

result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!(S = state_read())) return DRIVER_NOT_LOADED;
    result bad = ruled("nvmlInit", -1);
    if (bad) return bad;
    initialised++;
    return OK;
}
result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
result nvmlInit(void) { return nvmlInitWithFlags(0); }
result nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return OK;
}
const char *nvmlErrorString(result code) {
    static char text[48];
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case 13: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires restart";
    case 17: return "The operating system has blocked the request";
    case 18: return "Driver/library version mismatch";
    case 999: return "Unknown Error";
    }
    snprintf(text, sizeof text, "Simulated error %d", code);
    return text;
}
result nvmlSystemGetDriverVersion(char *out, unsigned room) { SYSTEM; return give(out, room, S->driver); }
result nvmlSystemGetNVMLVersion(char *out, unsigned room) {
    SYSTEM;
    char text[96];
    snprintf(text, sizeof text, "13.%s", S->driver);
    return give(out, room, text);
}
result nvmlSystemGetCudaDriverVersion(int *out) {
    SYSTEM;
    int major = 0, minor = 0;
    sscanf(S->cuda, "%d.%d", &major, &minor);
    *out = major * 1000 + minor * 10;
    return OK;
}
result nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
result nvmlSystemGetProcessName(unsigned pid, char *out, unsigned room) {
    SYSTEM;
    char path[64], name[256] = "";
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (!file) return NOT_FOUND;
    size_t n = fread(name, 1, sizeof name - 1, file);
    fclose(file);
    name[n] = 0; /* up to the first NUL: the program's name */
    snprintf(out, room, "%s", name);
    return OK;
}

/* --- which GPUs ---------------------------------------------------------------------------------------------- */

result nvmlDeviceGetCount_v2(unsigned *out) { SYSTEM; *out = S->gpus; return OK; }
result nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }
result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
    if (!initialised) return UNINITIALIZED;
    if (!(S = state_read())) return DRIVER_NOT_LOADED;
    if (index >= (unsigned)S->gpus || !S->gpu[index].set) return INVALID_ARGUMENT;
    if (S->gpu[index].lost) return GPU_IS_LOST;
    *out = (device)(long)(index + 1);
    return ruled(__func__, index);
}
result nvmlDeviceGetHandleByIndex(unsigned index, device *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }
result nvmlDeviceGetHandleByUUID(const char *uuid, device *out) {
    SYSTEM;
    for (int i = 0; i < S->gpus; i++)
        if (!strcmp(uuid, S->gpu[i].uuid)) {
            *out = (device)(long)(i + 1);
            return S->gpu[i].lost ? GPU_IS_LOST : OK;
        }
    for (int i = 0; i < S->migs; i++)
        if (!strcmp(uuid, S->mig[i].uuid)) {
            *out = (device)(long)(1000 + i);
            return OK;
        }
    return NOT_FOUND;
}
result nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device *out) {
    SYSTEM;
    for (int i = 0; i < S->gpus; i++) {
        const char *own = S->gpu[i].bus;
        size_t a = strlen(own), b = strlen(bus);
        if (b >= 7 && a >= b && !strcasecmp(own + a - b, bus)) {
            *out = (device)(long)(i + 1);
            return S->gpu[i].lost ? GPU_IS_LOST : OK;
        }
    }
    return NOT_FOUND;
}
result nvmlDeviceGetHandleByPciBusId(const char *bus, device *out) { return nvmlDeviceGetHandleByPciBusId_v2(bus, out); }
result nvmlDeviceGetIndex(device handle, unsigned *out) { DEVICE; *out = mig >= 0 ? S->mig[mig].index : gpu; return OK; }
result nvmlDeviceGetMinorNumber(device handle, unsigned *out) { DEVICE; *out = S->gpu[gpu].minor; return OK; }
result nvmlDeviceGetUUID(device handle, char *out, unsigned room) {
    DEVICE;
    return give(out, room, mig >= 0 ? S->mig[mig].uuid : S->gpu[gpu].uuid);
}
result nvmlDeviceGetName(device handle, char *out, unsigned room) {
    DEVICE;
    char text[200];
    if (mig < 0) return give(out, room, S->gpu[gpu].name);
    snprintf(text, sizeof text, "%s MIG %s", S->gpu[gpu].name, S->mig[mig].profile);
    return give(out, room, text);
}
struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};
result nvmlDeviceGetPciInfo_v3(device handle, struct pci *out) {
    DEVICE;
    memset(out, 0, sizeof *out);
    unsigned function = 0;
    sscanf(S->gpu[gpu].bus, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &function);
    out->id = 0x233010de;
    snprintf(out->bus_id, sizeof out->bus_id, "%s", S->gpu[gpu].bus);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%X", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff,
             function & 0xf);
    return OK;
}
result nvmlDeviceGetPciInfo_v2(device handle, struct pci *out) { return nvmlDeviceGetPciInfo_v3(handle, out); }
result nvmlDeviceGetCudaComputeCapability(device handle, int *major, int *minor) {
    DEVICE;
    *major = S->gpu[gpu].cc_major;
    *minor = S->gpu[gpu].cc_minor;
    return OK;
}

/* --- MIG ----------------------------------------------------------------------------------------------------- */

result nvmlDeviceGetMigMode(device handle, unsigned *current, unsigned *pending) {
    DEVICE;
    *current = *pending = S->gpu[gpu].mig;
    return OK;
}
result nvmlDeviceIsMigDeviceHandle(device handle, unsigned *out) { DEVICE; *out = mig >= 0; return OK; }
result nvmlDeviceGetMaxMigDeviceCount(device handle, unsigned *out) { DEVICE; *out = S->gpu[gpu].mig ? 7 : 0; return OK; }
result nvmlDeviceGetMigDeviceHandleByIndex(device handle, unsigned index, device *out) {
    DEVICE;
    for (int i = 0; i < S->migs; i++)
        if (S->mig[i].gpu == gpu && S->mig[i].index == (int)index) {
            *out = (device)(long)(1000 + i);
            return OK;
        }
    return NOT_FOUND;
}
result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device handle, device *out) { DEVICE; *out = (device)(long)(gpu + 1); return OK; }
result nvmlDeviceGetGpuInstanceId(device handle, unsigned *out) {
    DEVICE;
    if (mig < 0) return INVALID_ARGUMENT;
    *out = S->mig[mig].gi;
    return OK;
}
result nvmlDeviceGetComputeInstanceId(device handle, unsigned *out) {
    DEVICE;
    if (mig < 0) return INVALID_ARGUMENT;
    *out = S->mig[mig].ci;
    return OK;
}

/* --- modes and health ---------------------------------------------------------------------------------------- */

result nvmlDeviceGetPersistenceMode(device handle, unsigned *out) { DEVICE; *out = S->gpu[gpu].persist; return OK; }
result nvmlDeviceGetDisplayActive(device handle, unsigned *out) { DEVICE; *out = S->gpu[gpu].display; return OK; }
result nvmlDeviceGetDisplayMode(device handle, unsigned *out) { DEVICE; *out = S->gpu[gpu].display; return OK; }
result nvmlDeviceGetComputeMode(device handle, unsigned *out) { DEVICE; *out = 0; return OK; }
result nvmlDeviceGetEccMode(device handle, unsigned *current, unsigned *pending) {
    DEVICE;
    if (S->gpu[gpu].ecc < 0) return NOT_SUPPORTED;
    *current = *pending = S->gpu[gpu].ecc;
    return OK;
}
result nvmlDeviceGetNumaNodeId(device handle, unsigned *out) {
    DEVICE;
    if (S->gpu[gpu].numa < 0) return NOT_SUPPORTED;
    *out = S->gpu[gpu].numa;
    return OK;
}
struct addressing {
    unsigned version, value;
};
result nvmlDeviceGetAddressingMode(device handle, struct addressing *out) { DEVICE; out->value = S->gpu[gpu].addressing; return OK; }
struct utilization {
    unsigned gpu, memory;
};
result nvmlDeviceGetUtilizationRates(device handle, struct utilization *out) {
    DEVICE;
    if (mig >= 0 || S->gpu[gpu].mig) return NOT_SUPPORTED;
    out->gpu = S->gpu[gpu].util;
    out->memory = S->gpu[gpu].memutil;
    return OK;
}
struct field {
    unsigned id, scope;
    int64_t timestamp, latency;
    int type, code;
    union {
        double d;
        unsigned u;
        unsigned long long v;
    } value;
};
result nvmlDeviceGetFieldValues(device handle, int count, struct field *values) {
    DEVICE;
    for (int i = 0; i < count; i++) {
        values[i].type = 1; /* unsigned int */
        values[i].value.v = 0;
        values[i].code = values[i].id == RECOVERY_FIELD ? OK : NOT_SUPPORTED;
        if (values[i].code == OK && S->gpu[gpu].recovery < 0) values[i].code = NOT_SUPPORTED;
        else if (values[i].code == OK) values[i].value.u = S->gpu[gpu].recovery;
    }
    return OK;
}
result nvmlDeviceGetConfComputeMemSizeInfo(device handle, void *out) { DEVICE; (void)out; return NOT_SUPPORTED; }

/* --- memory -------------------------------------------------------------------------------------------------- */

static long used_mib(int gpu, int mig) {
    long used = mig >= 0 ? S->mig[mig].used : S->gpu[gpu].base + S->orphan[gpu];
    for (int i = 0; i < S->clients; i++) {
        const struct client *c = &S->client[i];
        if (c->gpu == gpu && c->mem > 0 && (mig < 0 || c->gi == S->mig[mig].gi)) used += c->mem;
    }
    return used;
}
static void memory(int gpu, int mig, uint64_t *total, uint64_t *reserved, uint64_t *used) {
    *total = MIB(mig >= 0 ? S->mig[mig].total : S->gpu[gpu].total);
    *reserved = mig >= 0 ? 0 : MIB(S->gpu[gpu].reserved);
    *used = MIB(used_mib(gpu, mig));
    if (*used + *reserved > *total) *used = *total - *reserved;
}
struct memory_v1 {
    uint64_t total, free, used;
};
struct memory_v2 {
    unsigned version;
    uint64_t total, reserved, free, used;
};
result nvmlDeviceGetMemoryInfo(device handle, struct memory_v1 *out) {
    DEVICE;
    if (mig < 0 && S->gpu[gpu].memory_error) return S->gpu[gpu].memory_error;
    uint64_t reserved;
    memory(gpu, mig, &out->total, &reserved, &out->used);
    out->used += reserved;
    out->free = out->total - out->used;
    return OK;
}
result nvmlDeviceGetMemoryInfo_v2(device handle, struct memory_v2 *out) {
    DEVICE;
    if (out->version != (0x02000000u | sizeof *out)) return VERSION_MISMATCH;
    if (mig < 0 && S->gpu[gpu].memory_error) return S->gpu[gpu].memory_error;
    memory(gpu, mig, &out->total, &out->reserved, &out->used);
    out->free = out->total - out->used - out->reserved;
    return OK;
}

/* --- processes ----------------------------------------------------------------------------------------------- */

struct process {
    unsigned pid;
    uint64_t mem;
    unsigned gi, ci;
    uint64_t protected_mem;
};
static result processes(const char *function, device handle, unsigned *count, char *out, char type, size_t size) {
    int gpu, mig;
    result bad = open_device(function, handle, &gpu, &mig);
    if (bad) return bad;
    unsigned found = 0, room = out ? *count : 0;
    for (int i = 0; i < S->clients && found < (unsigned)S->maxpids; i++) {
        const struct client *c = &S->client[i];
        if (!c->listed || c->gpu != gpu || c->type != type || (mig >= 0 && c->gi != S->mig[mig].gi)) continue;
        if (found < room) {
            struct process p = {0};
            p.pid = c->report;
            p.mem = c->mem < 0 ? ~0ULL : MIB(c->mem);
            p.gi = c->gi;
            p.ci = c->gi < 0 ? ~0u : 0;
            memcpy(out + found * size, &p, size);
        }
        found++;
    }
    bad = found > room ? INSUFFICIENT_SIZE : OK;
    *count = found;
    return bad;
}
#define LISTS(kind, type)                                                                                              \
    result nvmlDeviceGet##kind##RunningProcesses(device handle, unsigned *count, void *out) {                          \
        return processes(__func__, handle, count, out, type, 16);                                                      \
    }                                                                                                                  \
    result nvmlDeviceGet##kind##RunningProcesses_v2(device handle, unsigned *count, void *out) {                       \
        return processes(__func__, handle, count, out, type, 24);                                                      \
    }                                                                                                                  \
    result nvmlDeviceGet##kind##RunningProcesses_v3(device handle, unsigned *count, void *out) {                       \
        return processes(__func__, handle, count, out, type, S && S->procsize == 32 ? 32 : 24);                        \
    }
LISTS(Compute, 'C')
LISTS(Graphics, 'G')
LISTS(MPSCompute, 'M')
#ifndef EARLY_R535
result nvmlDeviceGetRunningProcessDetailList(device handle, void *out) { DEVICE; (void)out; return NOT_SUPPORTED; }
#endif
