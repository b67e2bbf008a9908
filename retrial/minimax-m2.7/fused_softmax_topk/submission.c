/* MiniMax-M2.7's fused softmax and top-k, re-created: a block of 256 threads for each row, three reads of the logits (for
 * the maximum, the sum and the best probabilities), a sorted list in each thread. The original did not compile: a Markdown
 * page under the name of a CUDA file, and a launcher that passed a name which nothing defines. This is what it would do
 * with both mended. Its faults:
 *
 * - Thread i hands in its own entry of rank i only, so TOP_K candidates are left of 256 lists. The merge then looks at 256
 *   places, of which TOP_K exist; here the others hold zeros.
 * - The second step of each reduction reads 32 shared places, of which eight were written: with zeros in the others the
 *   maximum is never below 0.
 * - k is rounded up to 10, 50 or 100, and rows of results lie that far apart. Here what would be written behind the end of
 *   the results is dropped, and more than 100 are refused.
 * - Where a row starts is computed in 32 bits; no case is large enough to show it.
 */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>

enum { THREADS = 256, LANES = 32, WARPS = THREADS / LANES, K_MAX = 100 };

/* The best so far, in descending order. */
typedef struct {
    float prob[K_MAX];
    int64_t index[K_MAX];
} List;

static void insert(List *list, int length, float prob, int64_t index) {
    int j = length - 1;
    if (!(prob > list->prob[j])) return;
    for (; j > 0 && prob > list->prob[j - 1]; j--) {
        list->prob[j] = list->prob[j - 1];
        list->index[j] = list->index[j - 1];
    }
    list->prob[j] = prob;
    list->index[j] = index;
}

static List empty(int length) {
    List list;
    for (int j = 0; j < length; j++) {
        list.prob[j] = -1;
        list.index[j] = -1;
    }
    return list;
}

static float maximum(const float *x, int64_t vocab) {
    float shared[LANES] = {0};
    for (int warp = 0; warp < WARPS; warp++) {
        float of_warp = -INFINITY;
        for (int thread = warp * LANES; thread < (warp + 1) * LANES; thread++)
            for (int64_t i = thread; i < vocab; i += THREADS) of_warp = fmaxf(of_warp, x[i]);
        shared[warp] = of_warp;
    }
    float max = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) max = fmaxf(max, shared[lane]);
    return max;
}

static float sum_of_exp(const float *x, int64_t vocab, float max) {
    float shared[LANES] = {0};
    for (int warp = 0; warp < WARPS; warp++) {
        float of_warp = 0;
        for (int thread = warp * LANES; thread < (warp + 1) * LANES; thread++) {
            float of_thread = 0;
            for (int64_t i = thread; i < vocab; i += THREADS) of_thread += expf(x[i] - max);
            of_warp += of_thread;
        }
        shared[warp] = of_warp;
    }
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += shared[lane];
    return sum;
}

static List merge(const float *probs, const int64_t *indices, int length) {
    List best = empty(length);
    for (int place = 0; place < THREADS; place++) insert(&best, length, probs[place], indices[place]);
    return best;
}

static List best_of_row(const float *x, int64_t vocab, int length) {
    const float max = maximum(x, vocab), sum = sum_of_exp(x, vocab, max);
    float shared_probs[THREADS] = {0};
    int64_t shared_indices[THREADS] = {0};
    for (int thread = 0; thread < THREADS; thread++) {
        List list = empty(length);
        for (int64_t i = thread; i < vocab; i += THREADS) insert(&list, length, expf(x[i] - max) / sum, i);
        if (thread < length) {
            shared_probs[thread] = list.prob[thread];
            shared_indices[thread] = list.index[thread];
        }
    }
    return merge(shared_probs, shared_indices, length);
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
    if (k > K_MAX) return refuse(args->message, "k must be 100 at most");
    const int length = k <= 10 ? 10 : k <= 50 ? 50 : K_MAX;
    for (int64_t row = 0; row < rows; row++) {
        const List best = best_of_row((const float *)logits->data + row * vocab, vocab, length);
        for (int64_t j = 0; j < length && row * length + j < rows * k; j++) {
            ((float *)args->probs->data)[row * length + j] = best.prob[j];
            ((int64_t *)args->indices->data)[row * length + j] = best.index[j];
        }
    }
    return 0;
}
