/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * nvidia-smi of the simulated driver. Like the real one it opens libnvidia-ml.so.1 and prints what that says:
 *   nvidia-smi                          a short table
 *   nvidia-smi -L                       the list with UUIDs, MIG devices too
 *   nvidia-smi -q -x [-i ID]            the XML in the shape of current drivers, as far as it is simulated
 *   nvidia-smi --query-gpu=F,.. --format=csv[,noheader][,nounits] [-i ID]
 *   nvidia-smi --query-compute-apps=F,.. --format=...
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *device;
typedef int (*call)();
static void *library;
static int exit_code;

#define FIND(name) ((call)dlsym(library, name))
#define CALL(name, ...) (FIND(name) ? FIND(name)(__VA_ARGS__) : 13)

struct one {
    int index;
    device handle;
    char uuid[96], name[128], bus[32];
};
static struct one gpus[64];
static int count;

struct listed {
    unsigned pid;
    long mem; /* MiB, -1 N/A */
    unsigned gi, ci;
    char type[8];
};
static struct listed list[4096];
static int listed, list_error;

static const char *error_text(int code) {
    switch (code) {
    case 3: case 13: return "N/A";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    }
    return "Unknown Error";
}

/* --- start --------------------------------------------------------------------------------------------------- */

static int start(void) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        puts("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display "
             "Driver is properly installed and present in your system.");
        return 12;
    }
    int code = CALL("nvmlInit_v2");
    if (!code) return 0;
    const char *(*text)(int) = (const char *(*)(int))dlsym(library, "nvmlErrorString");
    if (code == 9) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
             "NVIDIA driver is installed and running.\n");
        return 9;
    }
    printf("Failed to initialize NVML: %s\n", text(code));
    if (code == 18) puts("NVML library version: 999.00");
    return code > 255 ? 255 : code;
}

static bool wanted(const char *id, const struct one *g) {
    char copy[1024], *save = NULL;
    if (!id) return true;
    snprintf(copy, sizeof copy, "%s", id);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        char *end;
        long n = strtol(word, &end, 10);
        if (!*end && n == g->index) return true;
        size_t a = strlen(g->bus), b = strlen(word);
        if (!strcmp(word, g->uuid) || (strchr(word, ':') && a >= b && !strcasecmp(g->bus + a - b, word))) return true;
    }
    return false;
}

static int find_gpus(const char *id) {
    unsigned n = 0;
    int code = CALL("nvmlDeviceGetCount_v2", &n);
    bool lost = false, goes_on = CALL("llmhost_sim_smi_goes_on");
    for (unsigned i = 0; !code && i < n; i++) {
        struct one g = {.index = i};
        struct {
            char legacy[16];
            unsigned domain, bus, device, id, subsystem;
            char bus_id[32];
        } pci = {0};
        int bad = CALL("nvmlDeviceGetHandleByIndex_v2", i, &g.handle);
        if (bad == 2) continue;
        if (bad) {
            char number[16];
            snprintf(number, sizeof number, "%u", i);
            if (id && strcmp(id, number)) continue;
            if (goes_on)
                fprintf(stderr, "Unable to determine the device handle for GPU%u: %s\n", i, error_text(bad));
            else
                printf("Unable to determine the device handle for GPU0000:%02X:00.0: %s.  Reboot the system to recover this GPU\n", i + 1,
                       error_text(bad));
            lost = true;
            if (!goes_on) return 15;
            continue;
        }
        bad = CALL("nvmlDeviceGetUUID", g.handle, g.uuid, 96);
        if (bad) snprintf(g.uuid, sizeof g.uuid, "%s", error_text(bad));
        bad = CALL("nvmlDeviceGetName", g.handle, g.name, 96);
        if (bad) snprintf(g.name, sizeof g.name, "%s", error_text(bad));
        if (!CALL("nvmlDeviceGetPciInfo_v3", g.handle, &pci)) snprintf(g.bus, sizeof g.bus, "%s", pci.bus_id);
        if (wanted(id, &g)) gpus[count++] = g;
    }
    if (code) {
        printf("Unable to count the devices: %s\n", error_text(code));
        return code > 255 ? 255 : code;
    }
    if (!count && !lost) {
        puts("No devices were found");
        return 6;
    }
    return 0;
}

/* --- values as text ------------------------------------------------------------------------------------------ */

static const char *mib(uint64_t bytes, char *out) {
    sprintf(out, "%llu MiB", (unsigned long long)(bytes >> 20));
    return out;
}
struct memory {
    char total[64], reserved[64], used[64], free[64];
};
static struct memory memory_of(device handle) {
    struct memory m;
    struct {
        unsigned version;
        uint64_t total, reserved, free, used;
    } v = {.version = 0x02000000u | sizeof v};
    int bad = CALL("nvmlDeviceGetMemoryInfo_v2", handle, &v);
    if (bad) {
        snprintf(m.total, 64, "%s", error_text(bad));
        strcpy(m.reserved, m.total), strcpy(m.used, m.total), strcpy(m.free, m.total);
        return m;
    }
    mib(v.total, m.total), mib(v.reserved, m.reserved), mib(v.used, m.used), mib(v.free, m.free);
    return m;
}
static const char *recovery_of(device handle) {
    static const char *names[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain", "Bus Reset",
                                  "System Reboot"};
    struct {
        unsigned id, scope;
        int64_t timestamp, latency;
        int type, code;
        unsigned long long value;
    } f = {.id = 230};
    int bad = CALL("nvmlDeviceGetFieldValues", handle, 1, &f);
    if (bad || f.code) return error_text(bad ? bad : f.code);
    return f.value < 8 ? names[f.value] : "Unknown";
}
static const char *onoff(const char *function, device handle, bool two, char *out) {
    unsigned a = 0, b = 0;
    int bad = two ? CALL(function, handle, &a, &b) : CALL(function, handle, &a);
    sprintf(out, "%s", bad ? error_text(bad) : a ? "Enabled" : "Disabled");
    return out;
}

static void add_list(device handle, const char *function, const char *type) {
    static char buffer[4096 * 32];
    unsigned n = 4096;
    int size = CALL("llmhost_sim_procsize") == 32 ? 32 : 24;
    int bad = CALL(function, handle, &n, buffer);
    if (bad) {
        if (bad != 3 && bad != 13) list_error = bad;
        return;
    }
    for (unsigned i = 0; i < n && listed < 4096; i++) {
        struct {
            unsigned pid;
            uint64_t mem;
            unsigned gi, ci;
        } p;
        memcpy(&p, buffer + i * size, sizeof p);
        struct listed *same = NULL;
        for (int k = 0; k < listed; k++)
            if (list[k].pid == p.pid && list[k].gi == p.gi) same = &list[k];
        if (same) {
            char both[16];
            snprintf(both, sizeof both, "%s+%s", same->type, type);
            if (!strcmp(both, "C+M")) strcpy(both, "M+C");
            snprintf(same->type, sizeof same->type, "%.7s", both);
            continue;
        }
        struct listed *one = &list[listed++];
        one->pid = p.pid;
        one->mem = p.mem == ~0ULL ? -1 : (long)(p.mem >> 20);
        one->gi = p.gi, one->ci = p.ci;
        strcpy(one->type, type);
    }
}
static void list_processes(device handle, bool all) {
    listed = list_error = 0;
    add_list(handle, "nvmlDeviceGetComputeRunningProcesses_v3", "C");
    if (all) {
        add_list(handle, "nvmlDeviceGetGraphicsRunningProcesses_v3", "G");
        add_list(handle, "nvmlDeviceGetMPSComputeRunningProcesses_v3", "M+C");
    }
}
static void process_name(unsigned pid, char *out, const char *missing) {
    if (CALL("nvmlSystemGetProcessName", pid, out, 256)) strcpy(out, missing);
}

/* --- XML ----------------------------------------------------------------------------------------------------- */

static void x(int depth, const char *tag, const char *value) {
    for (int i = 0; i < depth; i++) putchar('\t');
    printf("<%s>", tag);
    for (; *value; value++)
        if (*value == '<') fputs("&lt;", stdout);
        else if (*value == '>') fputs("&gt;", stdout);
        else if (*value == '&') fputs("&amp;", stdout);
        else if ((unsigned char)*value >= 32) putchar(*value);
    printf("</%s>\n", tag);
}
static void x_memory(int depth, device handle) {
    struct memory m = memory_of(handle);
    for (int i = 0; i < depth; i++) putchar('\t');
    puts("<fb_memory_usage>");
    x(depth + 1, "total", m.total), x(depth + 1, "reserved", m.reserved), x(depth + 1, "used", m.used), x(depth + 1, "free", m.free);
    for (int i = 0; i < depth; i++) putchar('\t');
    puts("</fb_memory_usage>");
}
static void xml(void) {
    char text[256], driver[96] = "N/A";
    int cuda = 0;
    unsigned attached = 0;
    time_t now = time(NULL);
    CALL("nvmlSystemGetDriverVersion", driver, 96);
    CALL("nvmlSystemGetCudaDriverVersion_v2", &cuda);
    CALL("nvmlDeviceGetCount_v2", &attached);
    puts("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>");
    strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", localtime(&now));
    x(1, "timestamp", text);
    x(1, "driver_version", driver);
    snprintf(text, sizeof text, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    x(1, "cuda_version", text);
    snprintf(text, sizeof text, "%u", attached);
    x(1, "attached_gpus", text);
    for (int i = 0; i < count; i++) {
        device h = gpus[i].handle;
        unsigned value = 0, other = 0;
        printf("\t<gpu id=\"%s\">\n", gpus[i].bus);
        x(2, "product_name", gpus[i].name);
        x(2, "display_mode", onoff("nvmlDeviceGetDisplayMode", h, false, text));
        x(2, "display_active", onoff("nvmlDeviceGetDisplayActive", h, false, text));
        x(2, "persistence_mode", onoff("nvmlDeviceGetPersistenceMode", h, false, text));
        struct {
            unsigned version, value;
        } addressing = {0x01000008, 0};
        int bad = CALL("nvmlDeviceGetAddressingMode", h, &addressing);
        x(2, "addressing_mode", bad ? error_text(bad) : addressing.value == 2 ? "ATS" : addressing.value == 1 ? "HMM" : "None");
        puts("\t\t<mig_mode>");
        x(3, "current_mig", onoff("nvmlDeviceGetMigMode", h, true, text));
        x(3, "pending_mig", onoff("nvmlDeviceGetMigMode", h, true, text));
        puts("\t\t</mig_mode>");
        unsigned migs = 0, shown = 0;
        CALL("nvmlDeviceGetMaxMigDeviceCount", h, &migs);
        for (unsigned k = 0; k < migs; k++) {
            device m;
            if (CALL("nvmlDeviceGetMigDeviceHandleByIndex", h, k, &m)) continue;
            if (!shown++) puts("\t\t<mig_devices>");
            unsigned gi = 0, ci = 0;
            CALL("nvmlDeviceGetGpuInstanceId", m, &gi), CALL("nvmlDeviceGetComputeInstanceId", m, &ci);
            printf("\t\t\t<mig_device>\n\t\t\t\t<index>%u</index>\n\t\t\t\t<gpu_instance_id>%u</gpu_instance_id>\n"
                   "\t\t\t\t<compute_instance_id>%u</compute_instance_id>\n", k, gi, ci);
            x_memory(4, m);
            puts("\t\t\t</mig_device>");
        }
        if (shown) puts("\t\t</mig_devices>");
        else x(2, "mig_devices", "None");
        value = 0;
        bad = CALL("nvmlDeviceGetMinorNumber", h, &value);
        snprintf(text, sizeof text, "%u", value);
        x(2, "minor_number", bad ? error_text(bad) : text);
        x(2, "uuid", gpus[i].uuid);
        x(2, "gpu_recovery_action", recovery_of(h));
        puts("\t\t<pci>");
        x(3, "pci_bus_id", gpus[i].bus);
        puts("\t\t</pci>");
        x_memory(2, h);
        struct {
            unsigned gpu, memory;
        } use = {0, 0};
        bad = CALL("nvmlDeviceGetUtilizationRates", h, &use);
        puts("\t\t<utilization>");
        snprintf(text, sizeof text, "%u %%", use.gpu);
        x(3, "gpu_util", bad ? error_text(bad) : text);
        snprintf(text, sizeof text, "%u %%", use.memory);
        x(3, "memory_util", bad ? error_text(bad) : text);
        puts("\t\t</utilization>\n\t\t<ecc_mode>");
        value = other = 0;
        x(3, "current_ecc", onoff("nvmlDeviceGetEccMode", h, true, text));
        x(3, "pending_ecc", onoff("nvmlDeviceGetEccMode", h, true, text));
        puts("\t\t</ecc_mode>");
        x(2, "compute_mode", "Default");
        list_processes(h, true);
        if (list_error) {
            x(2, "processes", error_text(list_error));
        } else {
            puts("\t\t<processes>");
            for (int k = 0; k < listed; k++) {
                char name[256];
                process_name(list[k].pid, name, "[Not Found]");
                puts("\t\t\t<process_info>");
                snprintf(text, sizeof text, "%u", list[k].gi);
                x(4, "gpu_instance_id", list[k].gi == ~0u ? "N/A" : text);
                snprintf(text, sizeof text, "%u", list[k].ci);
                x(4, "compute_instance_id", list[k].ci == ~0u ? "N/A" : text);
                snprintf(text, sizeof text, "%u", list[k].pid);
                x(4, "pid", text);
                x(4, "type", list[k].type);
                x(4, "process_name", name);
                snprintf(text, sizeof text, "%ld MiB", list[k].mem);
                x(4, "used_memory", list[k].mem < 0 ? "N/A" : text);
                puts("\t\t\t</process_info>");
            }
            puts("\t\t</processes>");
        }
        puts("\t</gpu>");
    }
    puts("</nvidia_smi_log>");
}

/* --- CSV ----------------------------------------------------------------------------------------------------- */

static bool no_header, no_units;

static void csv_value(const char *text, bool first) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    if (!strcmp(copy, "N/A") || !strcmp(copy, "Insufficient Permissions") || !strcmp(copy, "Unknown Error") || !strcmp(copy, "GPU is lost"))
        snprintf(copy, sizeof copy, "[%s]", text);
    else if (no_units && isdigit((unsigned char)copy[0])) {
        char *space = strchr(copy, ' ');
        if (space && (!strcmp(space, " MiB") || !strcmp(space, " %") || !strcmp(space, " W"))) *space = 0;
    }
    printf("%s%s", first ? "" : ", ", copy);
}

static bool gpu_field(const char *f, const struct one *g, char *out) {
    char text[96];
    unsigned value = 0;
    int a = 0, b = 0, bad = 0;
    device h = g->handle;
    if (!strncmp(f, "memory.", 7)) {
        struct memory m = memory_of(h);
        const char *v = !strcmp(f, "memory.total") ? m.total : !strcmp(f, "memory.used") ? m.used : !strcmp(f, "memory.free") ? m.free
                      : !strcmp(f, "memory.reserved") ? m.reserved : NULL;
        if (v) sprintf(out, "%s", v);
        return v != NULL;
    }
    if (!strcmp(f, "index")) sprintf(out, "%d", g->index);
    else if (!strcmp(f, "uuid") || !strcmp(f, "gpu_uuid")) strcpy(out, g->uuid);
    else if (!strcmp(f, "name") || !strcmp(f, "gpu_name")) strcpy(out, g->name);
    else if (!strcmp(f, "pci.bus_id") || !strcmp(f, "gpu_bus_id")) strcpy(out, g->bus);
    else if (!strcmp(f, "count")) CALL("nvmlDeviceGetCount_v2", &value), sprintf(out, "%u", value);
    else if (!strcmp(f, "driver_version")) {
        if (CALL("nvmlSystemGetDriverVersion", out, 96)) strcpy(out, "N/A");
    } else if (!strcmp(f, "compute_cap")) {
        bad = CALL("nvmlDeviceGetCudaComputeCapability", h, &a, &b);
        sprintf(out, "%d.%d", a, b);
    } else if (!strcmp(f, "utilization.gpu") || !strcmp(f, "utilization.memory")) {
        unsigned use[2] = {0, 0};
        bad = CALL("nvmlDeviceGetUtilizationRates", h, use);
        sprintf(out, "%u %%", use[f[12] == 'm']);
    } else if (!strcmp(f, "persistence_mode")) onoff("nvmlDeviceGetPersistenceMode", h, false, out);
    else if (!strcmp(f, "display_active")) onoff("nvmlDeviceGetDisplayActive", h, false, out);
    else if (!strcmp(f, "ecc.mode.current")) onoff("nvmlDeviceGetEccMode", h, true, out);
    else if (!strcmp(f, "mig.mode.current")) onoff("nvmlDeviceGetMigMode", h, true, out);
    else if (!strcmp(f, "compute_mode")) strcpy(out, "Default");
    else if (!strcmp(f, "temperature.gpu") || !strcmp(f, "power.draw") || !strcmp(f, "power.limit") || !strcmp(f, "pstate"))
        strcpy(out, "N/A");
    else return false;
    (void)text;
    if (bad) sprintf(out, "%s", error_text(bad));
    return true;
}
static bool app_field(const char *f, const struct one *g, const struct listed *p, char *out) {
    if (!strcmp(f, "pid")) sprintf(out, "%u", p->pid);
    else if (!strcmp(f, "used_memory") || !strcmp(f, "used_gpu_memory")) {
        if (p->mem < 0) strcpy(out, "N/A");
        else sprintf(out, "%ld MiB", p->mem);
    } else if (!strcmp(f, "process_name") || !strcmp(f, "name")) process_name(p->pid, out, "[Not Found]");
    else if (!strcmp(f, "gpu_uuid")) strcpy(out, g->uuid);
    else if (!strcmp(f, "gpu_name")) strcpy(out, g->name);
    else if (!strcmp(f, "gpu_bus_id")) strcpy(out, g->bus);
    else return false;
    return true;
}
static int csv(const char *fields, bool apps) {
    char out[300], copy[1024], *save;
    struct listed none = {0};
    for (int round = no_header; round < 2; round++) { /* the header, then the rows */
        for (int i = 0; i < (round ? count : 1); i++) {
            listed = 1;
            if (apps && round) list_processes(gpus[i].handle, false);
            for (int k = 0; k < listed; k++) {
                bool first = true;
                snprintf(copy, sizeof copy, "%s", fields);
                save = NULL;
                for (char *f = strtok_r(copy, ", ", &save); f; f = strtok_r(NULL, ", ", &save), first = false) {
                    struct one nobody = {0};
                    const struct one *g = count ? &gpus[i] : &nobody;
                    if (!(apps ? app_field(f, g, round ? &list[k] : &none, out) : gpu_field(f, g, out))) {
                        printf("Field \"%s\" is not a valid field to query.\n\n", f);
                        return 2;
                    }
                    if (round) csv_value(out, first);
                    else {
                        const char *unit = no_units || !strncmp(f, "memory", 6) || strstr(f, "used_") ? " [MiB]"
                                         : !strncmp(f, "util", 4) ? " [%]" : "";
                        printf("%s%s%s", first ? "" : ", ", f, strncmp(f, "memory", 6) && !strstr(f, "used_") && strncmp(f, "util", 4) ? "" : unit);
                    }
                }
                putchar('\n');
            }
            if (apps && round && list_error) exit_code = list_error > 255 ? 255 : list_error;
        }
    }
    return 0;
}

/* --- -L and the table ---------------------------------------------------------------------------------------- */

static void list_gpus(void) {
    for (int i = 0; i < count; i++) {
        printf("GPU %d: %s (UUID: %s)\n", gpus[i].index, gpus[i].name, gpus[i].uuid);
        unsigned migs = 0;
        CALL("nvmlDeviceGetMaxMigDeviceCount", gpus[i].handle, &migs);
        for (unsigned k = 0; k < migs; k++) {
            device m;
            char uuid[96], name[200];
            if (CALL("nvmlDeviceGetMigDeviceHandleByIndex", gpus[i].handle, k, &m) || CALL("nvmlDeviceGetUUID", m, uuid, 96)) continue;
            CALL("nvmlDeviceGetName", m, name, 200);
            char *profile = strstr(name, "MIG ");
            printf("  MIG %-12sDevice %2u: (UUID: %s)\n", profile ? profile + 4 : "", k, uuid);
        }
    }
}
static void table(void) {
    char driver[96] = "N/A", name[256];
    CALL("nvmlSystemGetDriverVersion", driver, 96);
    printf("NVIDIA-SMI (simulation of llmhost.sglang, no GPU)   Driver Version: %s\n\n", driver);
    for (int i = 0; i < count; i++) {
        struct memory m = memory_of(gpus[i].handle);
        printf("%3d  %-28s %s  %s / %s\n", gpus[i].index, gpus[i].name, gpus[i].bus, m.used, m.total);
    }
    puts("\nProcesses:\n GPU       PID  Type  Memory      Name");
    int shown = 0;
    for (int i = 0; i < count; i++) {
        list_processes(gpus[i].handle, true);
        for (int k = 0; k < listed; k++, shown++) {
            process_name(list[k].pid, name, "[Not Found]");
            printf("%4d %9u  %-4s  %7ld MiB  %s\n", gpus[i].index, list[k].pid, list[k].type, list[k].mem, name);
        }
    }
    if (!shown) puts("  No running processes found");
}

int main(int argc, char **argv) {
    const char *id = NULL, *fields = NULL;
    bool q = false, xm = false, L = false, apps = false, formatted = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = strchr(a, '=') ? strchr(a, '=') + 1 : NULL;
        if (!strcmp(a, "-q") || !strcmp(a, "--query")) q = true;
        else if (!strcmp(a, "-x") || !strcmp(a, "--xml-format")) xm = true;
        else if (!strcmp(a, "-L") || !strcmp(a, "--list-gpus")) L = true;
        else if (!strcmp(a, "-i") && i + 1 < argc) id = argv[++i];
        else if (!strncmp(a, "--id=", 5)) id = value;
        else if (!strncmp(a, "--query-gpu=", 12)) fields = value;
        else if (!strncmp(a, "--query-compute-apps=", 21)) fields = value, apps = true;
        else if (!strncmp(a, "--format=", 9)) {
            formatted = true;
            no_header = strstr(value, "noheader") != NULL;
            no_units = strstr(value, "nounits") != NULL;
        } else if (!strcmp(a, "-r") || !strcmp(a, "--gpu-reset")) {
            puts("The simulation resets no GPU.");
            return 255;
        } else {
            printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. (%s is not simulated)\n\n", a);
            return 2;
        }
    }
    if (fields && !formatted) {
        puts("Option --format is not specified.");
        return 2;
    }
    if ((exit_code = start())) return exit_code;
    if ((exit_code = find_gpus(id))) return exit_code;
    if (fields) {
        int bad = csv(fields, apps);
        if (bad) return bad;
    } else if (q && xm) xml();
    else if (q) {
        puts("Only -q -x is simulated, not the text of -q.");
        return 2;
    } else if (L) list_gpus();
    else table();
    CALL("nvmlShutdown");
    return exit_code;
}
