/* Qwen3.6-27B's fused softmax and top-k, re-created after the first of its two kernels: a block of 256 threads for each
 * row, three reads of the logits, 16 probabilities kept by each thread, and one thread that puts these 4096 into a heap of
 * k. The original did not compile, because lines of its header comment stood outside the comment; this is what it would do
 * with that mended. Its faults:
 *
 * - Every lane of the first warp adds up the totals of all eight warps, and then the lanes are added up: the denominator is
 *   32 times too large.
 * - Sifting down writes the parent over its child and then copies that back: the child is lost.
 * - A thread keeps 16 entries whatever k is.
 * - What a heap was never given is stored as it started: index -1 with the lowest of all floats as probability.
 * - No more than 256 entries can be asked for.
 */
#include "tribunal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { THREADS = 256, LANES = 32, WARPS = THREADS / LANES, LOCAL_K = 16, K_MAX = 256 };

typedef struct {
    float prob;
    int64_t index;
} Entry;

static const Entry NOTHING = {-FLT_MAX, -1};

static float maximum(const float *x, int64_t vocab) {
    float max = -FLT_MAX;
    for (int64_t i = 0; i < vocab; i++) max = fmaxf(max, x[i]);
    return max;
}

static float denominator(const float *x, int64_t vocab, float max) {
    float warps[WARPS] = {0};
    for (int thread = 0; thread < THREADS; thread++) {
        float of_thread = 0;
        for (int64_t i = thread; i < vocab; i += THREADS) of_thread += expf(x[i] - max);
        warps[thread / LANES] += of_thread;
    }
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++)
        for (int warp = 0; warp < WARPS; warp++) sum += warps[warp];
    return sum;
}

/* What one thread keeps: a new entry takes the place of the least. */
static void keep(Entry local[LOCAL_K], Entry entry) {
    int least = 0;
    for (int j = 1; j < LOCAL_K; j++)
        if (local[j].prob < local[least].prob) least = j;
    if (entry.prob > local[least].prob) local[least] = entry;
}

/* From the root of a heap whose least entry should be there. */
static void sift_down(Entry *heap, int64_t size) {
    int64_t at = 0;
    while (2 * at + 1 < size) {
        int64_t child = 2 * at + 1;
        if (child + 1 < size && heap[child + 1].prob < heap[child].prob) child++;
        if (heap[at].prob <= heap[child].prob) return;
        heap[child] = heap[at];
        heap[at] = heap[child];
        at = child;
    }
}

static void sort_descending(Entry *entries, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t most = i;
        for (int64_t j = i + 1; j < count; j++)
            if (entries[j].prob > entries[most].prob) most = j;
        const Entry entry = entries[most];
        entries[most] = entries[i];
        entries[i] = entry;
    }
}

static void best_of_row(const float *x, int64_t vocab, Entry *heap, int64_t k) {
    const float max = maximum(x, vocab), sum = denominator(x, vocab, max);
    for (int64_t j = 0; j < k; j++) heap[j] = NOTHING;
    for (int thread = 0; thread < THREADS; thread++) {
        Entry local[LOCAL_K];
        for (int j = 0; j < LOCAL_K; j++) local[j] = NOTHING;
        for (int64_t i = thread; i < vocab; i += THREADS) keep(local, (Entry){expf(x[i] - max) / sum, i});
        for (int j = 0; j < LOCAL_K; j++) {
            if (!(local[j].prob > heap[0].prob)) continue;
            heap[0] = local[j];
            sift_down(heap, k);
        }
    }
    sort_descending(heap, k);
}

static int32_t refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args) {
    const DLTensor *logits = args->logits;
    const int64_t rows = logits->shape[0] * logits->shape[1], vocab = logits->shape[2], k = args->k;
    if (logits->dtype.code != 2 || logits->dtype.bits != 32) return refuse(args->message, "float32 only");
    if (k < 1 || k > K_MAX) return refuse(args->message, "k must be between 1 and 256");
    for (int64_t row = 0; row < rows; row++) {
        Entry heap[K_MAX];
        best_of_row((const float *)logits->data + row * vocab, vocab, heap, k);
        for (int64_t j = 0; j < k; j++) {
            ((float *)args->probs->data)[row * k + j] = heap[j].prob;
            ((int64_t *)args->indices->data)[row * k + j] = heap[j].index;
        }
    }
    return 0;
}
