/* Stands in for libnvidia-ml.so.1 in tests: two GPUs joined by four NVLinks.
 *
 * The values are an H100's as its datasheet gives them. The scenario, in the environment
 * variable NVML_SCENARIO, says what goes wrong:
 *   ok             nothing
 *   mismatch       nvmlInit fails: library and kernel module differ
 *   not_loaded     nvmlInit fails: no driver
 *   no_memory      memory information is not supported, as on unified memory
 *   lost           the second GPU is lost
 *   hang           asking for the number of GPUs never returns
 *   reordered      the GPUs have changed their indexes
 * Only what the adapter calls is here; anything else is a missing symbol, which is a case too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9,
       GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18 };

typedef struct { int number; } device;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, slot, device_id, subsystem_id;
    char bus_id[32];
} pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilization;

static device gpus[2] = {{0}, {1}};

static int is(const char *scenario) {
    const char *set = getenv("NVML_SCENARIO");
    return set && strcmp(set, scenario) == 0;
}

static int lost(const device *gpu) { return is("lost") && gpu->number == 1; }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (is("mismatch")) return LIB_RM_VERSION_MISMATCH;
    return is("not_loaded") ? DRIVER_NOT_LOADED : OK;
}

int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "550.54.15");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    while (is("hang")) sleep(3600);
    *count = 2;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **gpu) {
    if (index > 1) return INVALID_ARGUMENT;
    *gpu = &gpus[is("reordered") ? 1 - index : index];
    return OK;
}

static void uuid_of(const device *gpu, char *text, unsigned length) {
    snprintf(text, length, "GPU-00000000-0000-0000-0000-00000000000%d", gpu->number);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **gpu) {
    char text[96];
    for (int number = 0; number < 2; number++) {
        uuid_of(&gpus[number], text, sizeof text);
        if (strcmp(text, uuid) == 0) {
            *gpu = &gpus[number];
            return OK;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device *gpu, char *text, unsigned length) {
    if (lost(gpu)) return GPU_IS_LOST;
    uuid_of(gpu, text, length);
    return OK;
}

int nvmlDeviceGetName(device *gpu, char *text, unsigned length) {
    (void)gpu;
    snprintf(text, length, "NVIDIA H100 80GB HBM3");
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *gpu, int *major, int *minor) {
    (void)gpu;
    *major = 9;
    *minor = 0;
    return OK;
}

int nvmlDeviceGetArchitecture(device *gpu, unsigned *architecture) {
    (void)gpu;
    *architecture = 9;
    return OK;
}

int nvmlDeviceGetMemoryInfo(device *gpu, memory_info *memory) {
    if (lost(gpu)) return GPU_IS_LOST;
    if (is("no_memory")) return NOT_SUPPORTED;
    memory->total = 85520809984ULL;
    memory->used = 1073741824ULL;
    memory->free = memory->total - memory->used;
    return OK;
}

static void fill(int number, pci_info *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x17 + number;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x17 + number);
}

int nvmlDeviceGetPciInfo_v3(device *gpu, pci_info *pci) {
    fill(gpu->number, pci);
    return OK;
}

int nvmlDeviceGetMinorNumber(device *gpu, unsigned *minor) {
    *minor = gpu->number;
    return OK;
}

int nvmlDeviceGetMaxPcieLinkGeneration(device *gpu, unsigned *generation) {
    (void)gpu;
    *generation = 5;
    return OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(device *gpu, unsigned *width) {
    (void)gpu;
    *width = 16;
    return OK;
}

int nvmlDeviceGetMigMode(device *gpu, unsigned *current, unsigned *pending) {
    (void)gpu;
    *current = *pending = 0;
    return OK;
}

int nvmlDeviceGetNvLinkState(device *gpu, unsigned link, unsigned *active) {
    (void)gpu;
    *active = link < 4;
    return OK;
}

int nvmlDeviceGetNvLinkVersion(device *gpu, unsigned link, unsigned *version) {
    (void)gpu;
    (void)link;
    *version = 4;
    return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *gpu, unsigned link, pci_info *pci) {
    (void)link;
    fill(1 - gpu->number, pci);
    return OK;
}

int nvmlDeviceGetUtilizationRates(device *gpu, utilization *rates) {
    if (lost(gpu)) return GPU_IS_LOST;
    rates->gpu = 50;
    rates->memory = 25;
    return OK;
}

int nvmlDeviceGetPowerUsage(device *gpu, unsigned *milliwatts) {
    (void)gpu;
    *milliwatts = 350000;
    return OK;
}
