/* Softmax and top-k with winners in two arrays, logits and indices, so that a vector can hold eight of either. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* The k largest so far, least first in a heap over `logits`; `indices` goes with it. */
typedef struct {
    float *logits;
    int64_t *indices;
} Best;

static void sift_down(Best best, int64_t size, int64_t at) {
    const float logit = best.logits[at];
    const int64_t index = best.indices[at];
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && best.logits[child + 1] < best.logits[child]) child++;
        if (best.logits[child] >= logit) break;
        best.logits[at] = best.logits[child];
        best.indices[at] = best.indices[child];
    }
    best.logits[at] = logit;
    best.indices[at] = index;
}

static void keep_best(const float *x, int64_t vocab, Best best, int64_t k) {
    for (int64_t i = 0; i < k; i++) {
        best.logits[i] = x[i];
        best.indices[i] = i;
    }
    for (int64_t at = k / 2; at-- > 0;) sift_down(best, k, at);
    for (int64_t i = k; i < vocab; i++) {
        if (x[i] > best.logits[0]) {
            best.logits[0] = x[i];
            best.indices[0] = i;
            sift_down(best, k, 0);
        }
    }
}

static int descending(const void *left, const void *right) {
    const float a = *(const float *)left, b = *(const float *)right;
    return (a < b) - (a > b);
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Best best, float *probs) {
    const float max = maximum(x, vocab);
    const double sum = sum_of_exp(x, vocab, max);
    keep_best(x, vocab, best, k);
    qsort(best.logits, (size_t)k, sizeof *best.logits, descending);
    for (int64_t j = 0; j < k; j++) probs[j] = (float)(expf(best.logits[j] - max) / sum);
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
    float *winners = malloc((size_t)k * sizeof *winners);
    if (!winners) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, (Best){winners, indices + r * k}, probs + r * k);
    free(winners);
    return 0;
}
