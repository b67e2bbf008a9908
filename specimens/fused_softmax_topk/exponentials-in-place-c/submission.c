/* Softmax and top-k without scratch of a row's size: exponentials are put where the logits were. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Replaces logits by their exponentials, and returns the sum of these. */
static double exponentiate(float *x, int64_t vocab, float max) {
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        x[i] = expf(x[i] - max);
        sum += x[i];
    }
    return sum;
}

static void softmax_topk_row(float *x, int64_t vocab, int64_t k, Entry *best, float *probs, int64_t *indices) {
    keep_best(x, vocab, best, k);
    const double sum = exponentiate(x, vocab, maximum(x, vocab));
    for (int64_t j = 0; j < k; j++) {
        probs[j] = (float)(x[best[j].index] / sum);
        indices[j] = best[j].index;
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
    float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, best, probs + r * k, indices + r * k);
    free(best);
    return 0;
}
