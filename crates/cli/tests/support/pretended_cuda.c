/* A driver of a GPU that is not there: the functions of libcuda.so.1 that the judge's host uses, over the processor's memory. It has
 * one multiprocessor, for which no row is split, and knows two kernels by their names: softmax_topk_f32, and the one by which the judge copies.
 * LIE makes its events say a tenth of the time, WRONG makes every probability a little too large, and GIBIBYTES is its memory. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint64_t ptr;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, INVALID_PTX = 218, NOT_FOUND = 500, LAUNCH_FAILED = 719 };
enum { MULTIPROCESSORS = 1, THREADS_OF_EACH = 1024 };

static int failed; /* after a kernel failed, nothing works any more */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int cuInit(unsigned flags) { return flags ? INVALID : OK; }
int cuDriverGetVersion(int *version) { return *version = 12040, OK; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal ? INVALID : OK; }
int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    strncpy(name, "Pretended \033[31mGPU", length - 1);
    name[length - 1] = 0;
    return OK;
}
#ifndef GIBIBYTES
#define GIBIBYTES 16
#endif
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = (size_t)GIBIBYTES << 30, OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 16: return *value = MULTIPROCESSORS, OK;
    case 38: return *value = 1 << 16, OK;  /* bytes of L2 */
    case 75: return *value = 8, OK;        /* compute capability */
    case 76: return *value = 0, OK;
    }
    return INVALID;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = &failed, OK; }
int cuCtxSetCurrent(void *context) { return (void)context, OK; }
int cuCtxSynchronize(void) { return failed; }
int cuStreamCreate(void **stream, unsigned flags) { return (void)flags, *stream = &failed, OK; }
int cuStreamSynchronize(void *stream) { return (void)stream, failed; }
int cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof(double)), OK; }
int cuEventRecord(void *event, void *stream) { return (void)stream, *(double *)event = now(), failed; }
int cuEventElapsedTime(float *ms, void *start, void *end) {
    *ms = (float)(1e3 * (*(double *)end - *(double *)start));
#ifdef LIE
    *ms *= 0.1f;
#endif
    return OK;
}
int cuMemAlloc_v2(ptr *at, size_t bytes) {
    *at = bytes > (size_t)1 << 30 ? 0 : (ptr)(uintptr_t)malloc(bytes);
    return *at ? OK : OUT_OF_MEMORY;
}
int cuMemFree_v2(ptr at) { return free((void *)(uintptr_t)at), OK; }
int cuMemsetD8_v2(ptr at, unsigned char byte, size_t bytes) { return memset((void *)(uintptr_t)at, byte, bytes), failed; }
int cuMemcpyHtoD_v2(ptr to, const void *from, size_t bytes) { return memcpy((void *)(uintptr_t)to, from, bytes), failed; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t bytes) { return memcpy(to, (void *)(uintptr_t)from, bytes), failed; }
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t bytes, void *stream) {
    (void)stream;
    return memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes), failed;
}
static char *linked, *heard;
int cuLinkCreate_v2(unsigned options, int *names, void **values, void **link) {
    for (unsigned i = 0; i < options; i++)
        if (names[i] == 5) heard = values[i]; /* where errors are to be told */
    return *link = &linked, OK;
}
int cuLinkAddData_v2(void *link, int type, void *data, size_t bytes, const char *name, unsigned options, int *names, void **values) {
    (void)link, (void)type, (void)bytes, (void)name, (void)options, (void)names, (void)values;
    if (strstr(data, ".version")) return linked = strdup(data), OK;
    return strcpy(heard, "no .version in it"), INVALID_PTX;
}
int cuLinkComplete(void *link, void **image, size_t *bytes) { return (void)link, *bytes = strlen(linked) + 1, *image = linked, OK; }
int cuLinkDestroy(void *link) { return (void)link, free(linked), linked = 0, OK; }
int cuModuleLoadData(void **module, const void *image) { return *module = strdup(image), OK; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    return *function = strstr(module, name), *function ? OK : NOT_FOUND;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return (void)function, (void)attribute, (void)value, OK; }
int cuGetErrorName(int error, const char **name) {
    return *name = error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OTHER", OK;
}
int cuGetErrorString(int error, const char **text) { return (void)error, *text = "as it was pretended", OK; }

static void softmax_topk(const float *logits, float *probs, int64_t *indices, long rows, long vocab, int k) {
    for (long row = 0; row < rows; row++, logits += vocab, probs += k, indices += k) {
        float most = -INFINITY;
        double sum = 0;
        for (long i = 0; i < vocab; i++) most = logits[i] > most ? logits[i] : most;
        for (long i = 0; i < vocab; i++) sum += expf(logits[i] - most);
        int found = 0;
        for (long i = 0; i < vocab; i++) {
            if (found == k && logits[i] <= logits[indices[k - 1]]) continue;
            int at = found < k ? found++ : k - 1;
            for (; at > 0 && logits[indices[at - 1]] < logits[i]; at--) indices[at] = indices[at - 1];
            indices[at] = i;
        }
#ifdef WRONG
        sum *= 0.999;
#endif
        for (int rank = 0; rank < k; rank++) probs[rank] = (float)(exp((double)logits[indices[rank]] - most) / sum);
    }
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    /* A larger grid was planned for another device. */
    if (!strncmp(function, "softmax_topk_f32", 16) && gx * bx <= MULTIPROCESSORS * THREADS_OF_EACH)
        softmax_topk(*(float **)arguments[0], *(float **)arguments[1], *(int64_t **)arguments[2], *(int *)arguments[3],
                     *(int *)arguments[4], *(int *)arguments[5]);
    else if (!strncmp(function, "copy_vectors", 12))
        memcpy(*(void **)arguments[1], *(void **)arguments[0], *(uint64_t *)arguments[2]);
    else
        return failed = LAUNCH_FAILED;
    return OK;
}
