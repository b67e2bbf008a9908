/* Softmax and top-k without any scratch. Winners are found one after the other: the next is the largest logit that
 * comes after the last one, where equal logits come in the order of their indices. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    float logit;
    int64_t index;
} Entry;

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

/* The first entry from `from` on with this very logit, or -1. */
static int64_t find(const float *x, int64_t from, int64_t vocab, float logit) {
    enum { STEP = 16 };
    for (int met = 0; from + STEP <= vocab; from += STEP) {
        for (int64_t i = from; i < from + STEP; i++) met |= x[i] == logit;
        if (met) break;
    }
    for (int64_t i = from; i < vocab; i++)
        if (x[i] == logit) return i;
    return -1;
}

static float largest_below(const float *x, int64_t vocab, float limit) {
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++) {
        const float candidate = x[i] < limit ? x[i] : -INFINITY;
        max = candidate > max ? candidate : max;
    }
    return max;
}

static Entry next(const float *x, int64_t vocab, Entry last) {
    const int64_t equal = find(x, last.index + 1, vocab, last.logit);
    if (equal >= 0) return (Entry){last.logit, equal};
    const float logit = largest_below(x, vocab, last.logit);
    return (Entry){logit, find(x, 0, vocab, logit)};
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, float *probs, int64_t *indices) {
    const float max = maximum(x, vocab);
    const double sum = sum_of_exp(x, vocab, max);
    Entry entry = {max, -1};
    for (int64_t j = 0; j < k; j++) {
        entry = isnan(sum) ? (Entry){NAN, j} : next(x, vocab, entry);
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
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, probs + r * k, indices + r * k);
    return 0;
}
