/* Opus 4.7's fused softmax and top-k, re-created: a block of 256 threads for each row and one read of the logits. Each
 * thread has a running maximum and sum and a sorted list; the lists of a warp's lanes are merged pair by pair, then those of
 * the eight warps. Sound, but made for k of 8, 16 and 32 only. Beyond the vocabulary the index is -1. */
#include "tribunal.h"

#include <math.h>
#include <stdio.h>

enum { THREADS = 256, LANES = 32, WARPS = THREADS / LANES, K_MAX = 32 };

/* Running maximum and sum, and the best so far in descending order. */
typedef struct {
    float max, sum;
    float logit[K_MAX];
    int64_t index[K_MAX];
} State;

static State start(void) {
    State state = {.max = -INFINITY};
    for (int j = 0; j < K_MAX; j++) {
        state.logit[j] = -INFINITY;
        state.index[j] = -1;
    }
    return state;
}

static void add(State *state, int64_t k, float x, int64_t index) {
    if (x > state->max) {
        state->sum = state->sum * expf(state->max - x) + 1;
        state->max = x;
    } else if (x != -INFINITY) {
        state->sum += expf(x - state->max);
    }
    int64_t j = k - 1;
    if (!(x > state->logit[j]) && state->index[j] >= 0) return;
    for (; j > 0 && (x > state->logit[j - 1] || state->index[j - 1] < 0); j--) {
        state->logit[j] = state->logit[j - 1];
        state->index[j] = state->index[j - 1];
    }
    state->logit[j] = x;
    state->index[j] = index;
}

/* The k best of two lists of k, and the softmax of both. */
static State merge(const State *a, const State *b, int64_t k) {
    if (a->sum == 0 && a->index[0] < 0) return *b;
    if (b->sum == 0 && b->index[0] < 0) return *a;
    State both = start();
    both.max = a->max > b->max ? a->max : b->max;
    both.sum = (a->sum == 0 ? 0 : a->sum * expf(a->max - both.max)) + (b->sum == 0 ? 0 : b->sum * expf(b->max - both.max));
    for (int64_t j = 0, left = 0, right = 0; j < k; j++) {
        const int from_left = b->index[right] < 0 || (a->index[left] >= 0 && a->logit[left] >= b->logit[right]);
        const State *from = from_left ? a : b;
        const int64_t at = from_left ? left++ : right++;
        both.logit[j] = from->logit[at];
        both.index[j] = from->index[at];
    }
    return both;
}

/* Merges `count` states into the first, in pairs. */
static void reduce(State *states, int count, int64_t k) {
    for (int offset = count / 2; offset > 0; offset /= 2)
        for (int i = 0; i < offset; i++) states[i] = merge(&states[i], &states[i + offset], k);
}

static State best_of_row(const float *x, int64_t vocab, int64_t k) {
    State warps[WARPS];
    for (int warp = 0; warp < WARPS; warp++) {
        State lanes[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] = start();
            for (int64_t i = warp * LANES + lane; i < vocab; i += THREADS) add(&lanes[lane], k, x[i], i);
        }
        reduce(lanes, LANES, k);
        warps[warp] = lanes[0];
    }
    reduce(warps, WARPS, k);
    return warps[0];
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
    for (int64_t row = 0; row < rows; row++) {
        const State best = best_of_row((const float *)logits->data + row * vocab, vocab, k);
        for (int64_t j = 0; j < k; j++) {
            ((float *)args->probs->data)[row * k + j] = expf(best.logit[j] - best.max) / best.sum;
            ((int64_t *)args->indices->data)[row * k + j] = best.index[j];
        }
    }
    return 0;
}
