/* Softmax and top-k for list lengths known to the compiler, so that insertion can be unrolled. */
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

/* Inserts into a list in descending order; the last entry falls out. */
static inline void insert(Entry *list, int k, Entry entry) {
    int at = k - 1;
    for (; at > 0 && list[at - 1].logit < entry.logit; at--) list[at] = list[at - 1];
    list[at] = entry;
}

static inline void row(const float *x, int64_t vocab, int k, float *probs, int64_t *indices) {
    const float max = maximum(x, vocab);
    const double sum = sum_of_exp(x, vocab, max);
    Entry best[32];
    for (int64_t i = 0; i < vocab; i++) {
        if (i < k) insert(best, (int)i + 1, (Entry){x[i], i});
        else if (x[i] > best[k - 1].logit) insert(best, k, (Entry){x[i], i});
    }
    for (int j = 0; j < k; j++) {
        probs[j] = (float)(expf(best[j].logit - max) / sum);
        indices[j] = best[j].index;
    }
}

static void row_8(const float *x, int64_t vocab, float *probs, int64_t *indices) {
    row(x, vocab, 8, probs, indices);
}

static void row_16(const float *x, int64_t vocab, float *probs, int64_t *indices) {
    row(x, vocab, 16, probs, indices);
}

static void row_32(const float *x, int64_t vocab, float *probs, int64_t *indices) {
    row(x, vocab, 32, probs, indices);
}

static int32_t refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args) {
    const DLTensor *logits = args->logits;
    const int64_t rows = logits->shape[0] * logits->shape[1], vocab = logits->shape[2], k = args->k;
    if (logits->dtype.code != 2 || logits->dtype.bits != 32) return refuse(args->message, "float32 only");
    if (k != 8 && k != 16 && k != 32) return refuse(args->message, "k must be 8, 16 or 32");
    if (k > vocab) return refuse(args->message, "k is beyond V");
    void (*const row_k)(const float *, int64_t, float *, int64_t *) = k == 8 ? row_8 : k == 16 ? row_16 : row_32;
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++) row_k(x + r * vocab, vocab, probs + r * k, indices + r * k);
    return 0;
}
