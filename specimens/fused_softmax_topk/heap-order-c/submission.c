/* Softmax and top-k: two passes for the denominator and a min-heap of k for the winners, which are written from it. */
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

static void keep_best(const float *x, int64_t vocab, Entry *heap, int64_t k) {
    for (int64_t i = 0; i < k; i++) heap[i] = (Entry){x[i], i};
    for (int64_t at = k / 2; at-- > 0;) sift_down(heap, k, at);
    for (int64_t i = k; i < vocab; i++) {
        if (x[i] > heap[0].logit) {
            heap[0] = (Entry){x[i], i};
            sift_down(heap, k, 0);
        }
    }
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

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *heap, float *probs, int64_t *indices) {
    const float max = maximum(x, vocab);
    const double sum = sum_of_exp(x, vocab, max);
    keep_best(x, vocab, heap, k);
    for (int64_t j = 0; j < k; j++) {
        probs[j] = (float)(expf(heap[j].logit - max) / sum);
        indices[j] = heap[j].index;
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
    Entry *heap = malloc((size_t)k * sizeof *heap);
    if (!heap) return refuse(args->message, "out of memory");
    const float *x = logits->data;
    float *probs = args->probs->data;
    int64_t *indices = args->indices->data;
    for (int64_t r = 0; r < rows; r++)
        softmax_topk_row(x + r * vocab, vocab, k, heap, probs + r * k, indices + r * k);
    free(heap);
    return 0;
}
