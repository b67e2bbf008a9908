/* Softmax and top-k with entries that point at their logits; an index is how far a pointer is into them. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Restores a heap of pointers with the least logit at its root, from `at` downwards. */
static void sift_down(const float **heap, int64_t size, int64_t at) {
    const float *moving = heap[at];
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && *heap[child + 1] < *heap[child]) child++;
        if (*heap[child] >= *moving) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* The k largest of a row, in descending order. */
static void keep_best(const float *x, int64_t vocab, const float **best, int64_t k) {
    for (int64_t i = 0; i < k; i++) best[i] = x + i;
    for (int64_t at = k / 2; at-- > 0;) sift_down(best, k, at);
    for (int64_t i = k; i < vocab; i++) {
        if (x[i] > *best[0]) {
            best[0] = x + i;
            sift_down(best, k, 0);
        }
    }
    for (int64_t size = k; --size > 0;) {
        const float *least = best[0];
        best[0] = best[size];
        best[size] = least;
        sift_down(best, size, 0);
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

static int32_t refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args) {
    const DLTensor *logits = args->logits;
    const int64_t rows = logits->shape[0] * logits->shape[1], vocab = logits->shape[2], k = args->k;
    if (logits->dtype.code != 2 || logits->dtype.bits != 32) return refuse(args->message, "float32 only");
    if (k < 1 || k > vocab) return refuse(args->message, "k must be between 1 and V");
    const float **best = malloc((size_t)k * sizeof *best), *first = logits->data;
    if (!best) return refuse(args->message, "out of memory");
    for (int64_t r = 0; r < rows; r++) {
        const float *x = first + r * vocab, max = maximum(x, vocab);
        const double sum = sum_of_exp(x, vocab, max);
        keep_best(x, vocab, best, k);
        for (int64_t j = 0; j < k; j++) {
            ((float *)args->probs->data)[r * k + j] = (float)(expf(*best[j] - max) / sum);
            ((int64_t *)args->indices->data)[r * k + j] = best[j] - first;
        }
    }
    free(best);
    return 0;
}
