/* Softmax and top-k as a warp would do it: 32 lanes own a row and take every 32nd logit each. A lane keeps a running
 * maximum, a running sum and its own best k; then the pairs are combined, and the lanes' sorted lists are merged. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    float logit;
    int64_t index;
} Entry;

enum { LANES = 32 };

/* What one lane knows after its pass over every LANES-th logit. */
typedef struct {
    float max;
    double sum;
    Entry *best;
    int64_t depth, used;
} Lane;

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

static double total(const Lane *lanes, float max) {
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane].sum * exp((double)lanes[lane].max - max);
    return sum;
}

/* The best entry that no lane has given away yet. */
static Entry next_best(Lane *lanes) {
    Lane *chosen = NULL;
    for (Lane *lane = lanes; lane < lanes + LANES; lane++)
        if (lane->used < lane->depth && (!chosen || lane->best[lane->used].logit > chosen->best[chosen->used].logit))
            chosen = lane;
    return chosen->best[chosen->used++];
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *space, float *probs, int64_t *indices) {
    Lane lanes[LANES];
    float max = -INFINITY;
    for (int64_t first = 0; first < LANES; first++) {
        const int64_t mine = (vocab - first + LANES - 1) / LANES;
        Lane *lane = lanes + first;
        *lane = (Lane){.best = space, .depth = mine < k ? mine : k};
        accumulate(x, vocab, first, LANES, &lane->max, &lane->sum);
        keep_best(x, vocab, first, LANES, lane->best, lane->depth);
        space += lane->depth;
        if (lane->max > max) max = lane->max;
    }
    const double sum = total(lanes, max);
    for (int64_t j = 0; j < k; j++) {
        const Entry entry = next_best(lanes);
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
    const int64_t entries = LANES * k < vocab ? LANES * k : vocab;
    Entry *space = malloc((size_t)entries * sizeof *space);
    if (!space) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, space, probs + r * k, indices + r * k);
    free(space);
    return 0;
}
