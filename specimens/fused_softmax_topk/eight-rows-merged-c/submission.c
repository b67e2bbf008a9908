/* Softmax and top-k, after a GPU kernel with blocks of eight warps and one warp a row. A warp reduces its row to
 * maximum, sum and a list of its best; the block combines what its warps have in shared memory and stores the result.
 */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARPS = 8 };

typedef struct {
    float logit;
    int64_t index;
} Entry;

typedef struct {
    float max;
    double sum;
    /* `depth` entries in descending order, of which `used` have been taken. */
    Entry *best;
    int64_t depth, used;
} Warp;

/* Restores a heap with the least logit at its root, from `at` downwards. */
static void sift_down(Entry *heap, int64_t size, int64_t at) {
    Entry moving = heap[at];
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1].logit < heap[child].logit) child++;
        if (heap[child].logit >= moving.logit) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* Puts a heap in descending order. */
static void sort_heap(Entry *heap, int64_t size) {
    while (--size > 0) {
        Entry least = heap[0];
        heap[0] = heap[size];
        heap[size] = least;
        sift_down(heap, size, 0);
    }
}

/* The k largest of a row, in descending order. */
static void keep_best(const float *x, int64_t vocab, Entry *best, int64_t k) {
    for (int64_t i = 0; i < k; i++) best[i] = (Entry){x[i], i};
    for (int64_t at = k / 2; at-- > 0;) sift_down(best, k, at);
    for (int64_t i = k; i < vocab; i++) {
        if (x[i] > best[0].logit) {
            best[0] = (Entry){x[i], i};
            sift_down(best, k, 0);
        }
    }
    sort_heap(best, k);
}

static float maximum(const float *x, int64_t vocab) {
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++)
        if (x[i] > max) max = x[i];
    return max;
}

static double sum_of_exp(const float *x, int64_t vocab, float max) {
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) sum += expf(x[i] - max);
    return sum;
}

static void reduce_row(const float *x, int64_t vocab, Warp *warp) {
    warp->max = maximum(x, vocab);
    warp->sum = sum_of_exp(x, vocab, warp->max);
    keep_best(x, vocab, warp->best, warp->depth);
}

static Entry next_best(Warp *warps, int64_t count) {
    Warp *chosen = NULL;
    for (Warp *warp = warps; warp < warps + count; warp++)
        if (warp->used < warp->depth && (!chosen || warp->best[warp->used].logit > chosen->best[chosen->used].logit))
            chosen = warp;
    return chosen->best[chosen->used++];
}

/* Combines the block's warps. Its first warp stores. */
static void store(Warp *warps, int64_t count, int64_t k, float *probs, int64_t *indices) {
    float max = -INFINITY;
    double sum = 0;
    for (int64_t w = 0; w < count; w++)
        if (warps[w].max > max) max = warps[w].max;
    for (int64_t w = 0; w < count; w++) sum += warps[w].sum * exp((double)warps[w].max - max);
    for (int64_t j = 0; j < k; j++) {
        const Entry entry = next_best(warps, count);
        probs[j] = (float)(expf(entry.logit - max) / sum);
        indices[j] = entry.index;
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
    Entry *shared = malloc((size_t)(WARPS * k) * sizeof *shared);
    if (!shared) return refuse(args->message, "out of memory");
    for (int64_t first = 0; first < rows; first += WARPS) {
        const int64_t count = rows - first < WARPS ? rows - first : WARPS;
        Warp warps[WARPS];
        for (int64_t w = 0; w < count; w++) {
            warps[w] = (Warp){.best = shared + w * k, .depth = k};
            reduce_row((const float *)logits->data + (first + w) * vocab, vocab, &warps[w]);
        }
        store(warps, count, k, (float *)args->probs->data + first * k, (int64_t *)args->indices->data + first * k);
    }
    free(shared);
    return 0;
}
