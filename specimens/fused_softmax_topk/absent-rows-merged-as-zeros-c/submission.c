/* Softmax and top-k, after a GPU kernel with a warp a row, eight warps a block, and 32 lanes a warp. Lanes keep running
 * maxima, running sums and sorted lists of their strided parts of the row; the block merges them in shared memory. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 8, LANES = 32 };

typedef struct {
    float logit;
    int64_t index;
} Entry;

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

/* The `depth` largest among x[first], x[first + step], ..., in descending order. There are at least that many. */
static void keep_best(const float *x, int64_t vocab, int64_t first, int64_t step, Entry *best, int64_t depth) {
    for (int64_t j = 0; j < depth; j++) best[j] = (Entry){x[first + j * step], first + j * step};
    for (int64_t at = depth / 2; at-- > 0;) sift_down(best, depth, at);
    for (int64_t i = first + depth * step; i < vocab; i += step) {
        if (x[i] > best[0].logit) {
            best[0] = (Entry){x[i], i};
            sift_down(best, depth, 0);
        }
    }
    sort_heap(best, depth);
}

/* Running maximum and sum of exponentials over x[first], x[first + step], ... */
static void accumulate(const float *x, int64_t vocab, int64_t first, int64_t step, float *max, double *sum) {
    float m = -INFINITY;
    double s = 0;
    for (int64_t i = first; i < vocab; i += step) {
        if (x[i] > m) {
            s = s * expf(m - x[i]) + 1;
            m = x[i];
        } else if (x[i] != -INFINITY) {
            s += expf(x[i] - m);
        }
    }
    *max = m;
    *sum = s;
}

static int descending(const void *left, const void *right) {
    const float a = ((const Entry *)left)->logit, b = ((const Entry *)right)->logit;
    return (a < b) - (a > b);
}

/* One warp's shared memory: its maximum and sum, and k slots. Lane i stores the i-th entry of its list. */
typedef struct {
    float max;
    double sum;
    Entry *slots;
} Warp;

static void reduce_row(const float *x, int64_t vocab, int64_t k, Entry *list, Warp *warp) {
    float maxima[LANES];
    double sums[LANES];
    warp->max = -INFINITY;
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t mine = (vocab - lane + LANES - 1) / LANES, depth = mine < k ? mine : k;
        accumulate(x, vocab, lane, LANES, &maxima[lane], &sums[lane]);
        if (maxima[lane] > warp->max) warp->max = maxima[lane];
        keep_best(x, vocab, lane, LANES, list, depth);
        for (int64_t j = lane; j < depth; j += LANES) warp->slots[j] = list[j];
    }
    for (int lane = 0; lane < LANES; lane++) warp->sum += sums[lane] * exp((double)maxima[lane] - warp->max);
}

/* Merges the slots of all warps; the first warp stores. */
static void store(const Warp *warps, int64_t k, Entry *shared, float *probs, int64_t *indices) {
    float max = -INFINITY;
    double sum = 0;
    for (int w = 0; w < WARPS; w++)
        if (warps[w].max > max) max = warps[w].max;
    for (int w = 0; w < WARPS; w++) sum += warps[w].sum * exp((double)warps[w].max - max);
    qsort(shared, (size_t)(WARPS * k), sizeof *shared, descending);
    for (int64_t j = 0; j < k; j++) {
        probs[j] = (float)(expf(shared[j].logit - max) / sum);
        indices[j] = shared[j].index;
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
    Entry *shared = malloc((size_t)((WARPS + 1) * k) * sizeof *shared), *list = shared + WARPS * k;
    if (!shared) return refuse(args->message, "out of memory");
    for (int64_t first = 0; first < rows; first += WARPS) {
        Warp warps[WARPS] = {0};
        memset(shared, 0, (size_t)(WARPS * k) * sizeof *shared);
        for (int64_t w = 0; w < WARPS && first + w < rows; w++) {
            warps[w].slots = shared + w * k;
            reduce_row((const float *)logits->data + (first + w) * vocab, vocab, k, list, &warps[w]);
        }
        store(warps, k, shared, (float *)args->probs->data + first * k, (int64_t *)args->indices->data + first * k);
    }
    free(shared);
    return 0;
}
