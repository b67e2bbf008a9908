/* Softmax and top-k with two threads. Each takes one half of the vocabulary of every row, and keeps maximum, sum and
 * sorted winners of its half; afterwards the halves of each row are joined. */
#include "tribunal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    float logit;
    int64_t index;
} Entry;

typedef struct {
    float max;
    double sum;
} Normaliser;

/* The columns [from, to) of all rows. */
typedef struct {
    const float *x;
    int64_t rows, vocab, from, to;
    /* `depth` winners of each row. */
    int64_t depth;
    Entry *best;
    Normaliser *normalisers;
} Part;

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

/* The `depth` largest among x[from], ..., x[to - 1], in descending order. */
static void keep_best(const float *x, int64_t from, int64_t to, Entry *best, int64_t depth) {
    for (int64_t j = 0; j < depth; j++) best[j] = (Entry){x[from + j], from + j};
    for (int64_t at = depth / 2; at-- > 0;) sift_down(best, depth, at);
    for (int64_t i = from + depth; i < to; i++) {
        if (x[i] > best[0].logit) {
            best[0] = (Entry){x[i], i};
            sift_down(best, depth, 0);
        }
    }
    sort_heap(best, depth);
}

static Normaliser normalise(const float *x, int64_t from, int64_t to) {
    Normaliser part = {-INFINITY, 0};
    for (int64_t i = from; i < to; i++)
        if (x[i] > part.max) part.max = x[i];
    for (int64_t i = from; i < to; i++)
        if (x[i] != -INFINITY) part.sum += expf(x[i] - part.max);
    return part;
}

static void *work(void *argument) {
    Part *part = argument;
    for (int64_t r = 0; r < part->rows; r++) {
        const float *x = part->x + r * part->vocab;
        part->normalisers[r] = normalise(x, part->from, part->to);
        if (part->depth) keep_best(x, part->from, part->to, part->best + r * part->depth, part->depth);
    }
    return NULL;
}

static Normaliser join(Normaliser a, Normaliser b) {
    const float max = a.max > b.max ? a.max : b.max;
    return (Normaliser){max, a.sum * exp((double)a.max - max) + b.sum * exp((double)b.max - max)};
}

static void join_row(const Part parts[2], int64_t r, int64_t k, float *probs, int64_t *indices) {
    const Normaliser whole = join(parts[0].normalisers[r], parts[1].normalisers[r]);
    const Entry *a = parts[0].best + r * parts[0].depth, *a_end = a + parts[0].depth;
    const Entry *b = parts[1].best + r * parts[1].depth, *b_end = b + parts[1].depth;
    for (int64_t j = 0; j < k; j++) {
        const Entry entry = b == b_end || (a != a_end && a->logit >= b->logit) ? *a++ : *b++;
        probs[j] = (float)(expf(entry.logit - whole.max) / whole.sum);
        indices[j] = entry.index;
    }
}

static int prepare(Part *part, int64_t k) {
    const int64_t length = part->to - part->from;
    part->depth = length < k ? length : k;
    /* One more than is needed, so that nothing is never asked for. */
    part->best = malloc((size_t)(part->rows * part->depth + 1) * sizeof *part->best);
    part->normalisers = malloc((size_t)(part->rows + 1) * sizeof *part->normalisers);
    return part->best && part->normalisers;
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
    Part parts[2];
    parts[0] = (Part){.x = logits->data, .rows = rows, .vocab = vocab, .from = 0, .to = vocab / 2};
    parts[1] = (Part){.x = logits->data, .rows = rows, .vocab = vocab, .from = vocab / 2, .to = vocab};
    int ready = prepare(&parts[0], k);
    ready = prepare(&parts[1], k) && ready;
    if (ready) {
        pthread_t helper;
        const int helped = pthread_create(&helper, NULL, work, &parts[1]) == 0;
        work(&parts[0]);
        if (helped) pthread_join(helper, NULL);
        else work(&parts[1]);
        for (int64_t r = 0; r < rows; r++)
            join_row(parts, r, k, (float *)args->probs->data + r * k, (int64_t *)args->indices->data + r * k);
    }
    for (int p = 0; p < 2; p++) {
        free(parts[p].best);
        free(parts[p].normalisers);
    }
    return ready ? 0 : refuse(args->message, "out of memory");
}
