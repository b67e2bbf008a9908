/* GLM-5's fused softmax and top-k, re-created: eight warps a block, a row for each warp, one read of the logits with a
 * running maximum and sum in each lane, and a sorted list of at most 32 in each lane. Its faults:
 *
 * - The block combines what its eight warps found as if they shared one row, and only the first warp stores: the first of
 *   eight rows gets a mixture, the other seven are never written.
 * - The lists of a warp's lanes are never merged: lane i hands in its own entry of rank i.
 * - A warp without a row leaves before it has written its place in shared memory, and the block reads that place. Here it
 *   holds what the block before left there, or zeros.
 * - No more than 32 entries can be asked for.
 */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>

enum { WARPS = 8, LANES = 32, K_MAX = 32 };

/* The best so far, in descending order. */
typedef struct {
    float logit[K_MAX];
    int64_t index[K_MAX];
} List;

typedef struct {
    float max, sum;
} Softmax;

/* What a warp leaves in shared memory. */
typedef struct {
    Softmax softmax;
    List best;
} Place;

static List empty(void) {
    List list;
    for (int j = 0; j < K_MAX; j++) {
        list.logit[j] = -INFINITY;
        list.index[j] = -1;
    }
    return list;
}

static void insert(List *list, int64_t k, float logit, int64_t index) {
    int64_t j = k - 1;
    if (!(logit > list->logit[j]) && list->index[j] >= 0) return;
    for (; j > 0 && (logit > list->logit[j - 1] || list->index[j - 1] < 0); j--) {
        list->logit[j] = list->logit[j - 1];
        list->index[j] = list->index[j - 1];
    }
    list->logit[j] = logit;
    list->index[j] = index;
}

static void add(Softmax *softmax, float x) {
    if (x > softmax->max) {
        softmax->sum = softmax->sum * expf(softmax->max - x) + 1;
        softmax->max = x;
    } else if (x != -INFINITY) {
        softmax->sum += expf(x - softmax->max);
    }
}

static Softmax combine(Softmax a, Softmax b) {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    const float max = a.max > b.max ? a.max : b.max;
    return (Softmax){max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max)};
}

/* One warp over its row. */
static void reduce_row(const float *x, int64_t vocab, int64_t k, Place *place) {
    Softmax whole = {-INFINITY, 0};
    for (int64_t lane = 0; lane < LANES; lane++) {
        Softmax softmax = {-INFINITY, 0};
        List list = empty();
        for (int64_t i = lane; i < vocab; i += LANES) {
            add(&softmax, x[i]);
            insert(&list, k, x[i], i);
        }
        whole = combine(whole, softmax);
        if (lane < k) {
            place->best.logit[lane] = list.logit[lane];
            place->best.index[lane] = list.index[lane];
        }
    }
    place->softmax = whole;
}

/* What the block does after its warps: all eight places make one answer. */
static void store(const Place *shared, int64_t k, float *probs, int64_t *indices) {
    Softmax softmax = {-INFINITY, 0};
    List best = empty();
    for (int w = 0; w < WARPS; w++) {
        softmax = combine(softmax, shared[w].softmax);
        for (int64_t j = 0; j < k; j++) insert(&best, k, shared[w].best.logit[j], shared[w].best.index[j]);
    }
    for (int64_t j = 0; j < k; j++) {
        probs[j] = expf(best.logit[j] - softmax.max) / softmax.sum;
        indices[j] = best.index[j];
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
    if (k > K_MAX) return refuse(args->message, "k must be 32 at most");
    Place shared[WARPS] = {0};
    for (int64_t first = 0; first < rows; first += WARPS) {
        for (int64_t w = 0; w < WARPS && first + w < rows; w++)
            reduce_row((const float *)logits->data + (first + w) * vocab, vocab, k, &shared[w]);
        store(shared, k, (float *)args->probs->data + first * k, (int64_t *)args->indices->data + first * k);
    }
    return 0;
}
