/* Softmax and top-k, after a GPU kernel with a block of 256 threads a row. Threads sum exponentials and keep lists of
 * 16; the sums are reduced by warp and by block, and the lists go, a warp at a time, into a shared heap of k. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARPS = 8, LANES = 32, THREADS = WARPS * LANES, LOCAL = 16 };

typedef struct {
    float logit;
    int64_t index;
} Entry;

static double warp_sum(const double lanes[LANES]) {
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
}

static double block_sum(const double threads[THREADS]) {
    double shared[WARPS], lanes[LANES];
    for (int w = 0; w < WARPS; w++) shared[w] = warp_sum(threads + w * LANES);
    for (int lane = 0; lane < LANES; lane++) {
        lanes[lane] = 0;
        for (int w = 0; w < WARPS; w++) lanes[lane] += shared[w];
    }
    return warp_sum(lanes);
}

/* Restores a heap with the least logit at its root. */
static void sift_down(Entry *heap, int64_t size) {
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1].logit < heap[child].logit) child++;
        if (heap[child].logit >= heap[at].logit) break;
        heap[child] = heap[at];
        heap[at] = heap[child];
    }
}

static int descending(const void *left, const void *right) {
    const float a = ((const Entry *)left)->logit, b = ((const Entry *)right)->logit;
    return (a < b) - (a > b);
}

/* Inserts into a list in descending order of at most LOCAL; returns how many it holds then. */
static int insert(Entry *list, int held, Entry entry) {
    if (held == LOCAL && entry.logit <= list[LOCAL - 1].logit) return held;
    int at = held < LOCAL ? held : LOCAL - 1;
    for (; at > 0 && list[at - 1].logit < entry.logit; at--) list[at] = list[at - 1];
    list[at] = entry;
    return held < LOCAL ? held + 1 : LOCAL;
}

/* One thread's list goes into the heap. */
static void merge_thread(const float *x, int64_t vocab, int64_t thread, Entry *heap, int64_t k) {
    Entry list[LOCAL];
    int held = 0;
    for (int64_t i = thread; i < vocab; i += THREADS) held = insert(list, held, (Entry){x[i], i});
    for (int j = 0; j < held; j++) {
        if (list[j].logit > heap[0].logit) {
            heap[0] = list[j];
            sift_down(heap, k);
        }
    }
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *heap, float *probs, int64_t *indices) {
    float max = -INFINITY;
    double threads[THREADS] = {0};
    for (int64_t i = 0; i < vocab; i++)
        if (x[i] > max) max = x[i];
    for (int64_t i = 0; i < vocab; i++) threads[i % THREADS] += expf(x[i] - max);
    const double sum = block_sum(threads);
    for (int64_t j = 0; j < k; j++) heap[j] = (Entry){-INFINITY, 0};
    for (int64_t thread = 0; thread < THREADS; thread++) merge_thread(x, vocab, thread, heap, k);
    qsort(heap, (size_t)k, sizeof *heap, descending);
    for (int64_t j = 0; j < k; j++) {
        probs[j] = (float)(expf(heap[j].logit - max) / sum);
        indices[j] = heap[j].index;
    }
}

static int32_t refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args) {
    const DLTensor *logits = args->logits;
    const int64_t rows = logits->shape[0] * logits->shape[1], vocab = logits->shape[2], k = args->k;
    if (logits->dtype.code != 2 || logits->dtype.bits != 32) return refuse(args->message, "float32 only");
    if (k < 1 || k > vocab) return refuse(args->message, "k must be between 1 and V");
    Entry *heap = malloc((size_t)k * sizeof *heap);
    if (!heap) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, heap, probs + r * k, indices + r * k);
    free(heap);
    return 0;
}
