/* SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reads the state file, looks which of its clients live, and keeps the memory of the dead charged for a while.
 *
 * What outlives a caller is kept in files beside the state, <state>.held/: one for each client seen alive
 * (its name says who held what), renamed to *.gone when it is first found dead; the time of that is the file's.
 */
#define _GNU_SOURCE
#include "state.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CACHE_MS 20 /* a scan of /proc is not repeated within this time, or thrice what it took, by the same process */

static struct state S;
static long long read_at, read_took;
static struct timespec read_mtime;
static ino_t read_inode;

const char *state_path(void) {
    const char *path = getenv("LLMHOST_SIM_STATE");
    return path && *path ? path : DEFAULT_STATE;
}

static long long now_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* --- key=value and key="value with spaces" of one line ------------------------------------------------------- */

static bool text_of(const char *line, const char *key, char *out, size_t room, const char *otherwise) {
    size_t n = strlen(key);
    snprintf(out, room, "%s", otherwise);
    for (const char *p = line; *p;) {
        while (isspace((unsigned char)*p)) p++;
        const char *word = p;
        bool here = !strncmp(word, key, n) && word[n] == '=';
        bool quoted = false;
        size_t used = 0;
        if (here) {
            p += n + 1;
            out[0] = 0;
        }
        for (; *p && (quoted || !isspace((unsigned char)*p)); p++) {
            if (*p == '"') quoted = !quoted;
            else if (here && used + 1 < room) {
                out[used++] = *p;
                out[used] = 0;
            }
        }
        if (here) return true;
    }
    return false;
}

static long number_of(const char *line, const char *key, long otherwise) {
    char text[64];
    if (!text_of(line, key, text, sizeof text, "")) return otherwise;
    return strtol(text, NULL, 10);
}

/* --- processes ----------------------------------------------------------------------------------------------- */

static bool slurp(long pid, const char *name, char *out, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, out, room - 1);
    close(fd);
    if (n < 0) return false;
    for (ssize_t i = 0; i < n; i++)
        if (!out[i]) out[i] = ' ';
    out[n] = 0;
    return true;
}

/* Whether an MPS server let go of a process: it lives and holds nothing (the control stand-in leaves a file). */
static bool let_go(long pid, long start) {
    char path[4400];
    snprintf(path, sizeof path, "%s.mps/%ld.%ld", state_path(), pid, start);
    return !access(path, F_OK);
}

/* The start time of a process that runs (a zombie has given its memory back), 0 where it does not. */
static long start_of(long pid) {
    char line[1024];
    if (pid <= 0 || !slurp(pid, "stat", line, sizeof line)) return 0;
    char *p = strrchr(line, ')');
    if (!p || !p[1] || p[2] == 'Z' || p[2] == 'X') return 0;
    int field = 2;
    for (p++; *p && field < 22; p++)
        if (*p == ' ') field++;
    long start = strtol(p, NULL, 10);
    if (let_go(pid, start)) return 0;
    return start > 0 ? start : 1;
}

static bool in_container(long pid, const char *vmid) {
    char groups[4096], one[64], other[64];
    if (!slurp(pid, "cgroup", groups, sizeof groups)) return false;
    snprintf(one, sizeof one, ":/lxc/%s/", vmid);
    snprintf(other, sizeof other, ":/lxc.payload.%s/", vmid);
    return strstr(groups, one) || strstr(groups, other);
}

/* Whether one component of a path of its control groups is that unit. */
static bool in_unit(long pid, const char *unit) {
    char groups[4096], with_slash[256];
    if (!slurp(pid, "cgroup", groups, sizeof groups)) return false;
    snprintf(with_slash, sizeof with_slash, "/%s", unit);
    for (const char *p = groups; (p = strstr(p, with_slash)); p++) {
        char after = p[strlen(with_slash)];
        if (!after || after == '/' || after == '\n') return true;
    }
    return false;
}

static void add(struct client c) {
    if (S.clients == S.room) {
        int room = S.room ? S.room * 2 : 256;
        struct client *more = realloc(S.client, room * sizeof *more);
        if (!more) return;
        S.client = more;
        S.room = room;
    }
    S.client[S.clients++] = c;
}

static void held_path(char *out, size_t room, const char *name) {
    snprintf(out, room, "%s.held%s%s", state_path(), *name ? "/" : "", name);
}

static void remember(char kind, long start, const struct client *c, long release_ms, bool dead) {
    char name[160], path[4400], gone[4600];
    snprintf(name, sizeof name, "%c.%ld.%ld.%d.%d.%ld.%ld.%c", kind, c->pid, start, c->gpu, c->gi, c->mem, release_ms, c->type);
    held_path(path, sizeof path, name);
    snprintf(gone, sizeof gone, "%s.gone", path);
    if (dead && !access(gone, F_OK)) return;
    int fd = open(dead ? gone : path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) close(fd);
}

/* Memory of the dead: what was seen alive and is no more stays charged for its release time. */
static void charge_the_dead(void) {
    char folder[4200];
    held_path(folder, sizeof folder, "");
    DIR *dir = opendir(folder);
    if (!dir) return;
    struct dirent *e;
    while ((e = readdir(dir))) {
        char kind, type, path[4500], gone[4600];
        struct client c = {0};
        long start, release_ms;
        int length = 0;
        if (sscanf(e->d_name, "%c.%ld.%ld.%d.%d.%ld.%ld.%c%n", &kind, &c.pid, &start, &c.gpu, &c.gi, &c.mem, &release_ms, &type,
                   &length) != 8)
            continue;
        c.type = type;
        held_path(path, sizeof path, e->d_name);
        bool is_gone = !strcmp(e->d_name + length, ".gone");
        struct stat st;
        if (!is_gone) {
            long lives = start_of(c.pid);
            if (lives && (!start || lives == start)) continue;
            snprintf(gone, sizeof gone, "%s.gone", path);
            if (rename(path, gone)) continue;
            utimes(gone, NULL);
            strcpy(path, gone);
        }
        if (stat(path, &st)) continue;
        long long since = now_ms(CLOCK_REALTIME) - (st.st_mtim.tv_sec * 1000LL + st.st_mtim.tv_nsec / 1000000);
        if (since < release_ms) add(c);
        else if (kind == 'h') unlink(path); /* that of a "proc" line stays: the line would bring it back */
    }
    closedir(dir);
}

static void client_line(const char *line) {
    char text[64];
    struct client c = {.listed = true};
    c.gpu = number_of(line, "gpu", 0);
    c.pid = number_of(line, "pid", 0);
    c.mem = number_of(line, "mem", 0);
    c.gi = number_of(line, "gi", -1);
    c.report = number_of(line, "report", c.pid);
    text_of(line, "type", text, sizeof text, "C");
    c.type = text[0];
    if (number_of(line, "static", 0)) {
        add(c);
        return;
    }
    long start = number_of(line, "start", 0), lives = start_of(c.pid);
    long release_ms = number_of(line, "release_ms", S.release_ms);
    bool alive = lives && (!start || lives == start);
    if (alive) add(c);
    remember('p', start, &c, release_ms, !alive);
}

static void hold_line(const char *line) {
    char comm[256], cmd[512], vmid[32], unit[128], text[16], buffer[4096];
    regex_t by_comm, by_cmd;
    bool want_comm = text_of(line, "comm", comm, sizeof comm, ""), want_cmd = text_of(line, "cmd", cmd, sizeof cmd, "");
    bool want_vmid = text_of(line, "vmid", vmid, sizeof vmid, "");
    bool want_unit = text_of(line, "unit", unit, sizeof unit, "");
    if (!want_comm && !want_cmd) return;
    if (want_comm && regcomp(&by_comm, comm, REG_EXTENDED | REG_NOSUB)) return;
    if (want_cmd && regcomp(&by_cmd, cmd, REG_EXTENDED | REG_NOSUB)) {
        if (want_comm) regfree(&by_comm);
        return;
    }
    struct client rule = {.listed = true};
    rule.gpu = number_of(line, "gpu", 0);
    rule.mem = number_of(line, "mem", 0);
    rule.gi = number_of(line, "gi", -1);
    text_of(line, "type", text, sizeof text, "C");
    rule.type = text[0];
    long release_ms = number_of(line, "release_ms", S.release_ms), most = number_of(line, "max", 1000000);
    DIR *dir = opendir("/proc");
    struct dirent *e;
    while (dir && most > 0 && (e = readdir(dir))) {
        long pid = strtol(e->d_name, NULL, 10);
        if (pid <= 1 || pid == getpid()) continue;
        bool hit = true;
        if (want_comm) {
            hit = slurp(pid, "comm", buffer, sizeof buffer);
            buffer[strcspn(buffer, "\n")] = 0;
            hit = hit && !regexec(&by_comm, buffer, 0, NULL, 0);
        }
        if (hit && want_cmd) {
            hit = slurp(pid, "cmdline", buffer, sizeof buffer);
            for (size_t n = strlen(buffer); n && buffer[n - 1] == ' ';) buffer[--n] = 0;
            hit = hit && *buffer && !regexec(&by_cmd, buffer, 0, NULL, 0);
        }
        if (!hit || (want_vmid && !in_container(pid, vmid)) || (want_unit && !in_unit(pid, unit))) continue;
        long start = start_of(pid);
        if (!start) continue;
        struct client c = rule;
        c.pid = c.report = pid;
        add(c);
        remember('h', start, &c, release_ms, false);
        most--;
    }
    if (dir) closedir(dir);
    if (want_comm) regfree(&by_comm);
    if (want_cmd) regfree(&by_cmd);
}

/* --- the file ------------------------------------------------------------------------------------------------ */

static void gpu_line(const char *line, int i) {
    struct gpu *g = &S.gpu[i];
    char text[64];
    memset(g, 0, sizeof *g);
    g->set = true;
    if (i >= S.gpus) S.gpus = i + 1;
    snprintf(text, sizeof text, "GPU-00000000-0000-4000-8000-%012d", i);
    text_of(line, "uuid", g->uuid, sizeof g->uuid, text);
    text_of(line, "name", g->name, sizeof g->name, "Simulated H100 80GB");
    snprintf(text, sizeof text, "00000000:%02X:00.0", i + 1);
    text_of(line, "bus", g->bus, sizeof g->bus, text);
    g->total = number_of(line, "total", 81559);
    g->reserved = number_of(line, "reserved", 500);
    g->base = number_of(line, "base", 4);
    g->minor = number_of(line, "minor", i);
    g->mig = number_of(line, "mig", 0);
    g->lost = number_of(line, "lost", 0);
    g->persist = number_of(line, "persist", 1);
    g->display = number_of(line, "display", 0);
    g->util = number_of(line, "util", 0);
    g->memutil = number_of(line, "memutil", 0);
    g->recovery = number_of(line, "recovery", 0);
    g->ecc = number_of(line, "ecc", 1);
    g->numa = number_of(line, "numa", -1);
    text_of(line, "cc", text, sizeof text, "9.0");
    if (sscanf(text, "%d.%d", &g->cc_major, &g->cc_minor) != 2) g->cc_major = 9, g->cc_minor = 0;
    text_of(line, "addressing", text, sizeof text, g->numa >= 0 ? "ats" : "none");
    g->addressing = !strcasecmp(text, "ats") ? 2 : !strcasecmp(text, "hmm") ? 1 : 0;
    text_of(line, "mem", text, sizeof text, "");
    g->memory_error = !strcmp(text, "na") ? 3 : !strcmp(text, "noperm") ? 4 : 0;
}

static void mig_line(const char *line, int gpu, int index) {
    if (S.migs == MAX_MIGS) return;
    struct mig *m = &S.mig[S.migs++];
    char text[96];
    m->gpu = gpu;
    m->index = index;
    m->gi = number_of(line, "gi", index + 1);
    m->ci = number_of(line, "ci", 0);
    m->total = number_of(line, "total", 9728);
    m->used = number_of(line, "used", 0);
    snprintf(text, sizeof text, "MIG-00000000-0000-4000-8000-%06d%06d", gpu, index);
    text_of(line, "uuid", m->uuid, sizeof m->uuid, text);
    text_of(line, "profile", m->profile, sizeof m->profile, "1g.10gb");
}

static void rule_line(const char *line, bool hang) {
    if (S.rules == MAX_RULES) return;
    struct rule r = {.gpu = -1, .hang = hang, .code = 999};
    if (hang ? sscanf(line, "hang %95s %lf", r.function, &r.seconds) >= 1
             : sscanf(line, "err %95s %d %d", r.function, &r.code, &r.gpu) >= 2)
        S.rule[S.rules++] = r;
}

const struct state *state_read(void) {
    const char *path = state_path();
    struct stat st;
    if (stat(path, &st)) {
        read_at = 0;
        return NULL;
    }
    long long now = now_ms(CLOCK_MONOTONIC);
    if (read_at && now - read_at < (read_took * 3 > CACHE_MS ? read_took * 3 : CACHE_MS) && read_inode == st.st_ino && read_mtime.tv_sec == st.st_mtim.tv_sec &&
        read_mtime.tv_nsec == st.st_mtim.tv_nsec)
        return &S;
    FILE *file = fopen(path, "re");
    if (!file) return NULL;
    struct client *kept = S.client;
    int room = S.room;
    memset(&S, 0, sizeof S);
    S.client = kept;
    S.room = room;
    S.procsize = 24;
    S.maxpids = 950;
    strcpy(S.driver, DEFAULT_DRIVER);
    strcpy(S.cuda, "13.0");
    char folder[4200], line[2048];
    held_path(folder, sizeof folder, "");
    if (!mkdir(folder, 0777)) chmod(folder, 0777);
    while (fgets(line, sizeof line, file)) {
        int i, j;
        char word[32] = "", value[64] = "";
        line[strcspn(line, "\n")] = 0;
        memmove(line, line + strspn(line, " \t"), strlen(line + strspn(line, " \t")) + 1);
        if (sscanf(line, "%31s %63s", word, value) < 1 || word[0] == '#') continue;
        if (!strcmp(word, "driver")) sscanf(line, "driver %79s", S.driver);
        else if (!strcmp(word, "cuda")) sscanf(line, "cuda %31s", S.cuda);
        else if (!strcmp(word, "release_ms")) S.release_ms = atol(value);
        else if (!strcmp(word, "procsize")) S.procsize = atoi(value);
        else if (!strcmp(word, "maxpids")) S.maxpids = atoi(value);
        else if (!strcmp(word, "smi_lost")) S.smi_goes_on = !strcmp(value, "continue");
        else if (!strcmp(word, "err")) rule_line(line, false);
        else if (!strcmp(word, "hang")) rule_line(line, true);
        else if (!strcmp(word, "proc")) client_line(line);
        else if (!strcmp(word, "hold")) hold_line(line);
        else if (sscanf(line, "gpu %d", &i) == 1 && i >= 0 && i < MAX_GPUS) gpu_line(line, i);
        else if (sscanf(line, "mig %d %d", &i, &j) == 2) mig_line(line, i, j);
        else if (!strcmp(word, "orphan")) {
            i = number_of(line, "gpu", 0);
            if (i >= 0 && i < MAX_GPUS) S.orphan[i] += number_of(line, "mem", 0);
        }
    }
    fclose(file);
    charge_the_dead();
    read_at = now_ms(CLOCK_MONOTONIC);
    read_took = read_at - now;
    read_inode = st.st_ino;
    read_mtime = st.st_mtim;
    return &S;
}
