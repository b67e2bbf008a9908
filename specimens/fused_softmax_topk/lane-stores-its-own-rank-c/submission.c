/* Softmax and top-k as a warp does it: lane i of 32 takes logits i, i + 32, ... and keeps its best in descending order.
 * The lanes' maxima and sums are combined; rank j of the answer is stored by lane j modulo 32. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LANES = 32 };

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

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *best, float *probs, int64_t *indices) {
    float maxima[LANES], max = -INFINITY;
    double sums[LANES], sum = 0;
    for (int64_t lane = 0; lane < LANES; lane++) {
        accumulate(x, vocab, lane, LANES, &maxima[lane], &sums[lane]);
        if (maxima[lane] > max) max = maxima[lane];
    }
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane] * exp((double)maxima[lane] - max);
    for (int64_t lane = 0; lane < LANES; lane++) {
        const int64_t mine = (vocab - lane + LANES - 1) / LANES, depth = mine < k ? mine : k;
        keep_best(x, vocab, lane, LANES, best, depth);
        for (int64_t j = lane; j < k; j += LANES) {
            probs[j] = j < depth ? (float)(expf(best[j].logit - max) / sum) : 0;
            indices[j] = j < depth ? best[j].index : 0;
        }
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
    Entry *best = malloc((size_t)k * sizeof *best);
    if (!best) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, best, probs + r * k, indices + r * k);
    free(best);
    return 0;
}
