/* Softmax and top-k with 256 threads a row. Each looks at every 256th logit and hands its best to the merge, as many as
 * are needed to make k; the merge sorts what it is given. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 256 };

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

static int descending(const void *left, const void *right) {
    const float a = ((const Entry *)left)->logit, b = ((const Entry *)right)->logit;
    return (a < b) - (a > b);
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *gathered, float *probs,
                             int64_t *indices) {
    const float max = maximum(x, vocab);
    const double sum = sum_of_exp(x, vocab, max);
    const int64_t each = (k + THREADS - 1) / THREADS;
    int64_t count = 0;
    for (int64_t t = 0; t < THREADS && t < vocab; t++) {
        const int64_t mine = (vocab - t + THREADS - 1) / THREADS, depth = mine < each ? mine : each;
        keep_best(x, vocab, t, THREADS, gathered + count, depth);
        count += depth;
    }
    qsort(gathered, (size_t)count, sizeof *gathered, descending);
    for (int64_t j = 0; j < k; j++) {
        probs[j] = j < count ? (float)(expf(gathered[j].logit - max) / sum) : 0;
        indices[j] = j < count ? gathered[j].index : 0;
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
    Entry *gathered = malloc((size_t)(k + THREADS) * sizeof *gathered);
    if (!gathered) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, gathered, probs + r * k, indices + r * k);
    free(gathered);
    return 0;
}
