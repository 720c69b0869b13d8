/* Stands in for libnvidia-ml.so.1 in tests: two GPUs joined by four NVLinks.
 *
 * The values are an H100's as its datasheet gives them, unless an environment variable of the
 * prefix NVML_GPU_ gives another. NVML_SCENARIO says what goes wrong:
 *   ok             nothing
 *   mismatch       nvmlInit fails: library and kernel module differ
 *   not_loaded     nvmlInit fails: no driver
 *   no_memory      memory information is not supported, as on unified memory
 *   lost           the second GPU is lost
 *   hang           asking for the number of GPUs never returns
 *   reordered      the GPUs have changed their indexes
 *   not_permitted  nvmlInit fails: the user may not
 *   speed_told     the library tells how fast NVLinks are
 *   grace          the GPUs' memory is a NUMA node of the host
 *   worn           no spare row is left on the second GPU, and the first is to be reset
 * Only what the adapter calls is here; anything else is a missing symbol, which is a case too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9,
       GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18 };

typedef struct { int number; } device;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, slot, device_id, subsystem_id;
    char bus_id[32];
} pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int result;
    union { unsigned number; unsigned long long largest; } value;
} field_value;

static device gpus[2] = {{0}, {1}};

static int is(const char *scenario) {
    const char *set = getenv("NVML_SCENARIO");
    return set && strcmp(set, scenario) == 0;
}

static const char *text_of(const char *variable, const char *otherwise) {
    const char *set = getenv(variable);
    return set ? set : otherwise;
}

static unsigned long long number_of(const char *variable, unsigned long long otherwise) {
    const char *set = getenv(variable);
    return set ? strtoull(set, NULL, 10) : otherwise;
}

static int lost(const device *gpu) { return is("lost") && gpu->number == 1; }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (is("mismatch")) return LIB_RM_VERSION_MISMATCH;
    if (is("not_permitted")) return NO_PERMISSION;
    return is("not_loaded") ? DRIVER_NOT_LOADED : OK;
}

int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    snprintf(text, length, "%s", text_of("NVML_GPU_DRIVER", "550.54.15"));
    return OK;
}

int nvmlSystemGetNVMLVersion(char *text, unsigned length) {
    snprintf(text, length, "12.550.54.15");
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
    snprintf(text, length, "%s", text_of("NVML_GPU_NAME", "NVIDIA H100 80GB HBM3"));
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(device *gpu, int *major, int *minor) {
    (void)gpu;
    *major = number_of("NVML_GPU_MAJOR", 9);
    *minor = number_of("NVML_GPU_MINOR", 0);
    return OK;
}

int nvmlDeviceGetArchitecture(device *gpu, unsigned *architecture) {
    (void)gpu;
    *architecture = number_of("NVML_GPU_ARCHITECTURE", 9);
    return OK;
}

int nvmlDeviceGetMemoryInfo(device *gpu, memory_info *memory) {
    if (lost(gpu)) return GPU_IS_LOST;
    if (is("no_memory")) return NOT_SUPPORTED;
    memory->total = number_of("NVML_GPU_MEMORY", 85520809984ULL);
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
    *generation = number_of("NVML_GPU_PCIE_GENERATION", 5);
    return OK;
}

int nvmlDeviceGetMaxPcieLinkWidth(device *gpu, unsigned *width) {
    (void)gpu;
    *width = number_of("NVML_GPU_PCIE_WIDTH", 16);
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
    *version = 6; /* NVML_NVLINK_VERSION_4_0 */
    return OK;
}

int nvmlDeviceGetFieldValues(device *gpu, int count, field_value *values) {
    (void)gpu;
    for (int at = 0; at < count; at++) {
        values[at].result = is("speed_told") ? OK : NOT_SUPPORTED;
        values[at].value.number = 26562; /* as an H200 answers, in MB/s */
    }
    return OK;
}

int nvmlDeviceGetNumaNodeId(device *gpu, int *node) {
    *node = 2 + gpu->number;
    return is("grace") ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetRemappedRows(device *gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 0;
    *pending = is("worn") && gpu->number == 0;
    *failed = is("worn") && gpu->number == 1;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(device *gpu, unsigned type, unsigned counter,
                                unsigned long long *count) {
    (void)gpu;
    *count = is("worn") && type == 1 && counter == 0 ? 3 : 0;
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
