/* Online softmax and top-k: logits are read once, in blocks that stay in the first cache. A block is searched for its
 * maximum, the running sum is brought to the new maximum, and whatever beats the root of a heap of k goes into it.
 * Within a block sums are float32, in lanes. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 256, LANES = 16 };

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

static float maximum(const float *x, int64_t count) {
    float max = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        if (x[i] > max) max = x[i];
    return max;
}

static float sum_of_exp(const float *x, int64_t count, float max) {
    float lanes[LANES] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i++) lanes[i % LANES] += expf(x[i] - max);
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
}

/* Offers x[0], x[1], ... with indices from `base` on to a heap that holds `size` of k entries. Returns its new size. */
static int64_t offer(const float *x, int64_t count, int64_t base, Entry *heap, int64_t size, int64_t k) {
    for (int64_t i = 0; i < count; i++) {
        if (size < k) {
            heap[size++] = (Entry){x[i], base + i};
            if (size == k)
                for (int64_t at = k / 2; at-- > 0;) sift_down(heap, k, at);
        } else if (x[i] > heap[0].logit) {
            heap[0] = (Entry){x[i], base + i};
            sift_down(heap, k, 0);
        }
    }
    return size;
}

static void softmax_topk_row(const float *x, int64_t vocab, int64_t k, Entry *heap, float *probs, int64_t *indices) {
    float max = -INFINITY;
    double sum = 0;
    int64_t size = 0;
    for (int64_t base = 0; base < vocab; base += BLOCK) {
        const int64_t count = vocab - base < BLOCK ? vocab - base : BLOCK;
        const float block_max = maximum(x + base, count);
        if (block_max > max) {
            sum *= exp((double)max - block_max);
            max = block_max;
        }
        /* While everything was masked, or not a number, there is nothing to scale by. */
        sum += max == -INFINITY ? sum_of_exp(x + base, count, 0) : sum_of_exp(x + base, count, max);
        size = offer(x + base, count, base, heap, size, k);
    }
    sort_heap(heap, k);
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
