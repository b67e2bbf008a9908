/* Softmax and top-k in two passes over each row. The first finds the maximum and the k largest logits, the second sums
 * the exponentials in double. Logits are widened where they are read, from float32, float16 or bfloat16. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_float16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Element `i` of an array, widened. */
static inline float get(const void *data, DLDataType dtype, int64_t i) {
    if (dtype.bits == 32) return ((const float *)data)[i];
    const uint16_t bits = ((const uint16_t *)data)[i];
    return dtype.code == 4 ? from_bits((uint32_t)bits << 16) : from_float16(bits);
}

static int supported(DLDataType dtype) {
    return (dtype.code == 2 && (dtype.bits == 32 || dtype.bits == 16)) || (dtype.code == 4 && dtype.bits == 16);
}

/* The k largest of the `vocab` logits that start at element `start`, in descending order. Returns the largest. */
static float keep_best(const DLTensor *logits, int64_t start, int64_t vocab, Entry *best, int64_t k) {
    float max = -INFINITY;
    for (int64_t i = 0; i < vocab; i++) {
        const float x = get(logits->data, logits->dtype, start + i);
        if (x > max) max = x;
        if (i < k) {
            best[i] = (Entry){x, i};
            if (i + 1 == k)
                for (int64_t at = k / 2; at-- > 0;) sift_down(best, k, at);
        } else if (x > best[0].logit) {
            best[0] = (Entry){x, i};
            sift_down(best, k, 0);
        }
    }
    sort_heap(best, k);
    return max;
}

static int32_t refuse(char *message, const char *why) {
    snprintf(message, TRIBUNAL_MESSAGE_BYTES, "%s", why);
    return 1;
}

int32_t tribunal_softmax_topk(tribunal_softmax_topk_args *args) {
    const DLTensor *logits = args->logits;
    const int64_t rows = logits->shape[0] * logits->shape[1], vocab = logits->shape[2], k = args->k;
    if (!supported(logits->dtype)) return refuse(args->message, "neither float32 nor float16 nor bfloat16");
    if (k < 1 || k > vocab) return refuse(args->message, "k must be between 1 and V");
    Entry *best = malloc((size_t)k * sizeof *best);
    if (!best) return refuse(args->message, "out of memory");
    for (int64_t r = 0; r < rows; r++) {
        const double max = keep_best(logits, r * vocab, vocab, best, k);
        double sum = 0;
        for (int64_t i = 0; i < vocab; i++) sum += exp(get(logits->data, logits->dtype, r * vocab + i) - max);
        for (int64_t j = 0; j < k; j++) {
            ((float *)args->probs->data)[r * k + j] = (float)(exp(best[j].logit - max) / sum);
            ((int64_t *)args->indices->data)[r * k + j] = best[j].index;
        }
    }
    free(best);
    return 0;
}
